package operations_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/toolset"
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
		if _, err := o.Input(); err != nil {
			t.Error(err)
		}
		if _, err := o.Output(); err != nil {
			t.Error(err)
		}
		if found, ok := operations.Named(o.Name); !ok || found.Name != o.Name {
			t.Errorf("Named(%s) = %+v, %t", o.Name, found.Declaration, ok)
		}
	}
	if _, ok := operations.Named("kairos_search"); ok {
		t.Error("a tool is found among the operations")
	}
}
