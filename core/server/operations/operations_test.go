package operations_test

import (
	"context"
	"testing"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestEveryRowIsWholeAndNotATool(t *testing.T) {
	names := map[string]bool{}
	for _, name := range toolset.Names() {
		names[name] = true
	}
	for _, o := range operations.Table {
		if names[o.Name] || o.Title == "" || len(o.Description) <= 20 {
			t.Errorf("row %+v: want a name of its own, a title and a description", o.Declaration)
		}
		names[o.Name] = true
		o.Input()
		o.Output()
		if found, ok := operations.Named(o.Name); !ok || found.Name != o.Name {
			t.Errorf("Named(%s) = %+v, %t", o.Name, found.Declaration, ok)
		}
	}
	if _, ok := operations.Named("kairos_search"); ok {
		t.Error("a tool is found among the operations")
	}
}

// decider keeps the decision that it is told.
type decider struct {
	operations.Engine

	told director.DecideInput
}

func (d *decider) Decide(_ context.Context, _ access.Caller, in director.DecideInput) (director.DecideReply, error) {
	d.told = in
	return director.DecideReply{}, nil
}

func TestADecisionOverRESTNamesThePrincipal(t *testing.T) {
	row, ok := operations.Named("runs_decide")
	if !ok {
		t.Fatal("there is no runs_decide")
	}
	for name, tc := range map[string]struct{ transport, by, want string }{
		"by a command":            {"cli", "ann (command line)", "ann (command line)"},
		"over REST":               {"rest", "ann (command line)", "ann (command line), as principal p1 over REST"},
		"over REST by who knows?": {"rest", "", "somebody, as principal p1 over REST"},
	} {
		t.Run(name, func(t *testing.T) {
			var d decider
			c := access.Caller{Principal: "p1", Operator: true, Client: driver.Client{Transport: tc.transport}}
			_, err := row.Reply(t.Context(), &d, c, []byte(`{"run_id":"r1","happened":true,"reason":"I looked","by":"`+tc.by+`","result":{"n":1}}`))
			if err != nil || d.told.By != tc.want || d.told.Run != "r1" || !d.told.Happened || string(d.told.Result) != `{"n":1}` || d.told.Reason != "I looked" {
				t.Errorf("told %+v, %v; want it by %q", d.told, err, tc.want)
			}
		})
	}
}
