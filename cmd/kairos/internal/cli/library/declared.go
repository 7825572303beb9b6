package library

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/drivers/manual"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// declared judges documents by what the descriptors of the locked drivers say, and
// starts none. Without a lock it judges the documents alone.
type declared struct {
	types   map[string]driver.Descriptor
	missing string // the type of a challenge that names none
}

func declaredBy(at *session.Session) declared {
	d := declared{types: map[string]driver.Descriptor{}}
	tree, err := at.Tree("")
	lock, unread := at.Salvage().ReadLock()
	if err != nil || unread != nil {
		return d // what is wrong there is not the document's fault
	}
	d.missing = tree.MissingType()
	for _, one := range lock.Descriptors() {
		for _, handled := range one.Handles {
			if one.Role == driver.RoleChallenge {
				d.types[handled] = one
			}
		}
	}
	return d
}

// judge is the verdict on a document without any driver.
func (d declared) judge(_ context.Context, text library.Text) (found library.Linted, err error) {
	found.Chains, found.Findings = protocol.ParseFile([]byte(text.Document), text.File)
	for _, c := range found.Chains {
		for i := range c.Steps {
			found.Findings = append(found.Findings, d.step(&c.Steps[i])...)
		}
		found.Findings = slices.Concat(found.Findings, protocol.CheckReferences(c), protocol.CheckHidden(c))
		found.Findings = append(found.Findings, protocol.CheckLookalikes(c.Steps, slices.Sorted(maps.Keys(d.types)))...)
		found.Findings = append(found.Findings, protocol.Advise(c, found.Findings)...)
	}
	found.Findings = protocol.ForAuthors(found.Findings)
	protocol.SortDiagnostics(found.Findings)
	return found, nil
}

func (d declared) step(s *protocol.Step) []protocol.Diagnostic {
	common, err := protocol.CommonOf(s.Challenge)
	if err != nil || s.Challenge == nil {
		return nil // reported when the challenge was parsed
	}
	kind := common.Type
	if kind == "" {
		kind = d.missing
	}
	handler, known := d.types[kind]
	s.Output = handler.OutputSchema
	var members map[string]json.RawMessage
	if json.Unmarshal(s.Challenge, &members) != nil || !known || members[kind] == nil {
		return nil
	}
	params, err := json.Marshal(manual.Params(handler.ParamsSchema))
	if err != nil || string(params) == "null" {
		return nil
	}
	var out []protocol.Diagnostic
	for _, finding := range schema.Validate(params, members[kind]) {
		if !slices.Contains(out, *s.Problem("/"+kind+finding.Pointer, finding.Message)) {
			out = append(out, *s.Problem("/"+kind+finding.Pointer, finding.Message))
		}
	}
	return out
}
