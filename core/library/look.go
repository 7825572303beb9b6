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

// maxAlike is how many protocols with the name of another one are compared with it.
const maxAlike = 20

// refuseLookAlike refuses a new title that a reader cannot tell from the title of
// another protocol that they can read.
func refuseLookAlike(ctx context.Context, s Searcher, spaces []string, chain protocol.Chain) error {
	hits, err := s.Search(ctx, Query{Text: chain.Title, Spaces: spaces, Limit: maxAlike, Named: true})
	if err != nil {
		return fmt.Errorf("look for titles like %q: %w", plain.Clip(chain.Title, maxTitleShown), err)
	}
	look := lookOf(chain.Title)
	for _, h := range hits {
		if h.Chain.ID != chain.ID && lookOf(h.Chain.Title) == look {
			return fault.New(fault.SimilarMemoryFound, "its title looks the same as that of %q, another protocol that is stored already; if both are meant, import it with --on-existing replace", plain.Clip(h.Chain.Title, maxTitleShown))
		}
	}
	return nil
}
