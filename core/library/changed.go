package library

import (
	"context"
)

// noticed is a writer that reports changes after they were made.
type noticed struct {
	ProtocolWriter
	changed func(space string)
}

// SaveChains implements ProtocolWriter.
func (n noticed) SaveChains(ctx context.Context, changes []Change) ([]int64, error) {
	revisions, err := n.ProtocolWriter.SaveChains(ctx, changes)
	if err != nil {
		return revisions, err
	}
	told := make(map[string]bool)
	for _, c := range changes {
		if space := c.Chain.Space; !told[space] {
			told[space] = true
			n.changed(space)
		}
	}
	return revisions, nil
}

// DeleteChain implements ProtocolWriter.
func (n noticed) DeleteChain(ctx context.Context, space, id string, replaces int64) error {
	err := n.ProtocolWriter.DeleteChain(ctx, space, id, replaces)
	if err == nil {
		n.changed(space)
	}
	return err
}
