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

// Former is what was read of protocols that an older program kept on a Qdrant
// server.
type Former struct {
	// Problems are broken points, which do not stop the rest.
	Problems []string
	// Own: an older version of this program kept them, in the spaces that it has still.
	Own bool

	url, collection string
}

// FormerProtocols passes the protocols of a collection to take, except the built-in
// ones.
func (a *App) FormerProtocols(ctx context.Context, url, collection string, take func(title string, item *library.ImportItem)) (Former, error) {
	q := a.Config.Qdrant
	q.URL = url
	o, err := q.Options()
	if err != nil {
		return Former{}, err
	}
	var items []former.Protocol
	report, err := former.Read(ctx, former.Options{Options: o.Options, Collection: collection, Usual: q.Collection}, func(p former.Protocol) error {
		if !strings.HasPrefix(p.Chain.Steps[0].UUID, formerBuiltin) {
			items = append(items, p)
		}
		return nil
	})
	f := Former{Own: report.Own, url: url, collection: report.Collection}
	for _, p := range report.Problems {
		f.Problems = append(f.Problems, fmt.Sprintf("collection %s, point %s: %s", report.Collection, p.Point, p.Problem))
	}
	if report.Deleted > 0 {
		f.Problems = append(f.Problems, fmt.Sprintf("collection %s: the history of %d deleted protocols is not read", report.Collection, report.Deleted))
	}
	if err != nil {
		return f, fmt.Errorf("read the protocols in Qdrant: %w", err)
	}
	for _, p := range items {
		take(p.Chain.Title, formerItem(p, report.Own))
	}
	return f, nil
}

// formerItem is a protocol as a document, with its identities, ratings and older
// versions where the document has the same steps.
func formerItem(p former.Protocol, own bool) *library.ImportItem {
	item := &library.ImportItem{Document: protocol.Render(p.Chain), Record: recordOfFormer(p.Chain, own)}
	if item.Record == nil {
		return item
	}
	item.Record.Quality = p.Quality
	for _, older := range p.Older {
		if r := recordOfFormer(older, own); r != nil {
			item.Older = append(item.Older, library.Written{Record: *r, Document: protocol.Render(older)})
		}
	}
	return item
}

// recordOfFormer is the record of a chain; nil: its document would have other steps.
// The spaces of the earlier server mean nothing here.
func recordOfFormer(chain protocol.Chain, own bool) *library.Record {
	parsed, _ := protocol.Parse([]byte(protocol.Render(chain))) // what is wrong with it the import reports
	if len(parsed) != 1 || len(parsed[0].Steps) != len(chain.Steps) {
		return nil
	}
	chain.ID, chain.Title = parsed[0].ID, parsed[0].Title
	if !own {
		chain.Space = ""
	}
	steps := make([]protocol.Step, len(chain.Steps))
	for i, step := range chain.Steps {
		step.Name = parsed[0].Steps[i].Name
		steps[i] = step
	}
	chain.Steps = steps
	record := library.RecordOf(chain)
	return &record
}

// Adopt gives the name of the former protocols to the index, if they have the one
// that is configured for it. The former collection stays as it is.
func (f Former) Adopt(ctx context.Context, a *App) (adopted bool, err error) {
	if a.Index == nil || !f.Own {
		return false, nil
	}
	there := a.Config.Qdrant
	there.URL = f.url
	if !there.Plain().SameServer(a.Config.Qdrant.Plain().Options) || a.Index.server.Alias() != f.collection {
		return false, nil
	}
	database, err := a.Store.DatabaseID(ctx)
	if err != nil {
		return false, err
	}
	return true, a.Index.server.Adopt(ctx, database)
}
