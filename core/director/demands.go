package director

import (
	"fmt"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// obstacle is why a request is not sent, and how that ends its route.
type obstacle struct {
	outcome decision.Outcome
	why     string
}

// demands lists what the client must have declared to be sent a request of the
// driver. A driver sends only what its pinned descriptor lists, and a client is
// sent only what it declared.
func demands(d driver.Descriptor, c driver.Client, r driver.ClientRequest) ([]string, *obstacle) {
	needs, err := d.Demands(r)
	if err != nil {
		return nil, &obstacle{decision.Errored, err.Error()}
	}
	for _, pointer := range needs {
		if !c.Declares(pointer) {
			return nil, &obstacle{decision.Unavailable, fmt.Sprintf("the client did not declare %s, which %s needs", pointer, r.Method)}
		}
	}
	return needs, nil
}
