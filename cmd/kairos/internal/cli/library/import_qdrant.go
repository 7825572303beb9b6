package library

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/documents"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
)

// legacyBuiltin begins the UUIDs of the protocols that every server brings along.
const legacyBuiltin = "00000000-0000-0000-0000-"

// legacySources reads the protocols of the earlier server's collection. Its
// spaces are other people's here, so they are stored where --space says. What is
// broken in the collection is told and does not stop the rest.
func legacySources(ctx context.Context, c config.Config, url, collection string, warn io.Writer) (*sourceFiles, error) {
	q := c.Qdrant
	q.URL = url
	o, err := q.Options()
	if err != nil {
		return nil, err
	}
	o.Collection = "" // that is where this program keeps its own
	s := &sourceFiles{}
	report, err := qdrant.ReadLegacy(ctx, qdrant.LegacyOptions{Options: o, Collection: collection}, func(p qdrant.LegacyProtocol) error {
		if strings.HasPrefix(p.Chain.Steps[0].UUID, legacyBuiltin) {
			return nil
		}
		s.files = append(s.files, sourceFile{Document: documents.Document{Name: fmt.Sprintf("%q", p.Chain.Title)}, item: legacyItem(p)})
		return nil
	})
	for _, p := range report.Problems {
		output.Tell(warn, "collection %s, point %s: %s\n", report.Collection, p.Point, p.Problem)
	}
	if err != nil {
		return nil, fmt.Errorf("read the collection of the earlier server: %w", err)
	}
	return s, nil
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
