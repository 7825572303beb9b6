package library

import (
	"context"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// maxTitleShown is how many bytes of a title a message repeats.
const maxTitleShown = 80

// SameLook returns a form of a title that is equal for titles of which a space has only
// one: import and mint refuse the second.
func SameLook(title string) string { return lookOf(title) }

// lookOf is equal for titles that a reader cannot tell apart.
func lookOf(title string) string {
	return strings.Join(strings.Fields(plain.Skeleton(title)), " ")
}

// refuseLookAlike refuses a new title that a reader cannot tell from the title of
// another protocol that they can read.
func refuseLookAlike(ctx context.Context, s Searcher, spaces []string, chain protocol.Chain) error {
	named, err := s.Named(ctx, chain.Title, spaces)
	if err != nil {
		return fmt.Errorf("look for titles like %q: %w", plain.Clip(chain.Title, maxTitleShown), err)
	}
	look := lookOf(chain.Title)
	for _, f := range named {
		if f.ChainID != chain.ID && lookOf(f.Title) == look {
			return fault.New(fault.SimilarMemoryFound, "its title looks the same as that of %q, another protocol that is stored already; if both are meant, import it with --on-existing replace", plain.Clip(f.Title, maxTitleShown))
		}
	}
	return nil
}
