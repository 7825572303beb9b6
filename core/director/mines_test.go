package director_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// mine is a schema of 53 KB that takes 1.9 GiB and most of a minute to compile.
func mine() string {
	properties := make([]string, 300)
	for i := range properties {
		properties[i] = fmt.Sprintf(`"a%d":{"pattern":"(%s%d){1000}"}`, i, strings.Repeat("a.b.", 45), i)
	}
	return `{"properties":{` + strings.Join(properties, ",") + `}}`
}

// None is minted, but a store may hold one of an older program or of a copy.
func TestAStoredProtocolWithASchemaBeyondTheLimitsIsRefusedByName(t *testing.T) {
	for name, plant := range map[string]func(c *protocol.Chain){
		"inputs": func(c *protocol.Chain) { c.Inputs = json.RawMessage(mine()) },
		"output_schema": func(c *protocol.Chain) {
			c.Steps[0].Challenge = json.RawMessage(`{"type":"comment","comment":{"min_length":1},"output_schema":` + mine() + `}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			uri := w.mint("# Old mine\n\n## A\n\nx\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"comment\":{\"min_length\":1}}}\n```\n")[0]
			id, err := protocol.ParseURI(uri)
			if err != nil {
				t.Fatal(err)
			}
			chain, _, err := w.store.StepChain(t.Context(), w.caller.Spaces(), id)
			if err != nil {
				t.Fatal(err)
			}
			plant(&chain)
			if _, err := w.store.SaveChains(t.Context(), []library.Change{{Chain: chain, Replaces: chain.Revision}}); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uri, Input: json.RawMessage(`{"a1":"x"}`)})
			if took := time.Since(began); took > 10*time.Second { // it took a minute
				t.Errorf("Begin took %s", took)
			}
			refused(t, err, fault.InvalidArgument, `The protocol "Old mine" is at fault: its `+name, "more than 50000 steps")
		})
	}
}

// An input that would take minutes to be judged is refused at once.
func TestAnInputThatTakesTooMuchWorkIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	alternatives := strings.TrimSuffix(strings.Repeat(`{"type":"object"},`, 2900), ",")
	uri := w.mint("# M\n\n```json\n{\"inputs\":{\"properties\":{\"l\":{\"items\":{\"anyOf\":[" + alternatives + "]}}}}}\n```\n\n## A\n\nx\n")[0]
	input := `{"l":[` + strings.TrimSuffix(strings.Repeat("0,", 5000), ",") + `]}`
	began := time.Now()
	_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uri, Input: json.RawMessage(input)})
	if took := time.Since(began); took > 10*time.Second { // it took minutes
		t.Errorf("Begin took %s", took)
	}
	refused(t, err, fault.InvalidArgument, "more than 1048576 comparisons")
}
