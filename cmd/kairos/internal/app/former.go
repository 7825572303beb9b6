package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant/former"
)

// formerBuiltin begins the UUIDs of the protocols that every server brings along.
const formerBuiltin = "00000000-0000-0000-0000-"

// FormerProtocols passes the protocols that the earlier server kept in a collection to
// take, except the built-in ones. problems are its broken points, which do not stop the
// rest.
func (a *App) FormerProtocols(ctx context.Context, url, collection string, take func(title string, item *library.ImportItem)) (problems []string, err error) {
	q := a.Config.Qdrant
	q.URL = url
	o, err := q.Options()
	if err != nil {
		return nil, err
	}
	var items []former.Protocol
	report, err := former.Read(ctx, former.Options{Options: o.Options, Collection: collection}, func(p former.Protocol) error {
		if !strings.HasPrefix(p.Chain.Steps[0].UUID, formerBuiltin) {
			items = append(items, p)
		}
		return nil
	})
	for _, p := range report.Problems {
		problems = append(problems, fmt.Sprintf("collection %s, point %s: %s", report.Collection, p.Point, p.Problem))
	}
	if err != nil {
		return problems, fmt.Errorf("read the protocols in Qdrant: %w", err)
	}
	for _, p := range items {
		take(p.Chain.Title, formerItem(p))
	}
	return problems, nil
}

// formerItem is a protocol as a document, with its identities and ratings if the
// document has the same steps.
func formerItem(p former.Protocol) *library.ImportItem {
	item := &library.ImportItem{Document: protocol.Render(p.Chain), Record: recordOfFormer(p.Chain)}
	if item.Record != nil {
		item.Record.Quality = p.Quality
	}
	return item
}

// recordOfFormer returns the record of a chain, or nil if its document would have other steps.
// The spaces of the earlier server mean nothing here.
func recordOfFormer(chain protocol.Chain) *library.Record {
	parsed, _ := protocol.Parse([]byte(protocol.Render(chain))) // what is wrong with it the import reports
	if len(parsed) != 1 || len(parsed[0].Steps) != len(chain.Steps) {
		return nil
	}
	chain.ID, chain.Title = parsed[0].ID, parsed[0].Title
	chain.Space = ""
	steps := make([]protocol.Step, len(chain.Steps))
	for i, step := range chain.Steps {
		step.Name = parsed[0].Steps[i].Name
		steps[i] = step
	}
	chain.Steps = steps
	record := library.RecordOf(chain)
	return &record
}
