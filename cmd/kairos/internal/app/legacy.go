package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
)

// legacyBuiltin begins the UUIDs of the protocols that every server brings along.
const legacyBuiltin = "00000000-0000-0000-0000-"

// LegacyProtocols passes the protocols of an earlier server's collection to take,
// except the built-in ones. Broken points of the collection are listed in
// problems and do not stop the rest.
func (a *App) LegacyProtocols(ctx context.Context, url, collection string, take func(title string, item *library.ImportItem)) (problems []string, err error) {
	q := a.Config.Qdrant
	q.URL = url
	o, err := q.Options()
	if err != nil {
		return nil, err
	}
	o.Collection = "" // that is where this program keeps its own
	report, err := qdrant.ReadLegacy(ctx, qdrant.LegacyOptions{Options: o, Collection: collection}, func(p qdrant.LegacyProtocol) error {
		if !strings.HasPrefix(p.Chain.Steps[0].UUID, legacyBuiltin) {
			take(p.Chain.Title, legacyItem(p))
		}
		return nil
	})
	for _, p := range report.Problems {
		problems = append(problems, fmt.Sprintf("collection %s, point %s: %s", report.Collection, p.Point, p.Problem))
	}
	if err != nil {
		return problems, fmt.Errorf("read the collection of the earlier server: %w", err)
	}
	return problems, nil
}

// legacyItem is a protocol of the earlier server as a document, with its
// identities and ratings where the document has the same steps.
func legacyItem(p qdrant.LegacyProtocol) *library.ImportItem {
	chain := p.Chain
	item := &library.ImportItem{Document: protocol.Render(chain)}
	parsed, _ := protocol.Parse([]byte(item.Document)) // what is wrong with it the import will say
	if len(parsed) != 1 || len(parsed[0].Steps) != len(chain.Steps) {
		return item
	}
	chain.ID, chain.Title, chain.Space = parsed[0].ID, parsed[0].Title, ""
	for i := range chain.Steps {
		chain.Steps[i].Name = parsed[0].Steps[i].Name
	}
	record := library.RecordOf(chain)
	record.Quality = p.Quality
	item.Record = &record
	return item
}
