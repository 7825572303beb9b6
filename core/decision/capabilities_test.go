package decision_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// withAcme is the default tree with routes for a kind of input of a third party,
// whose driver needs something that only its own clients declare.
func withAcme(t *testing.T, routes string) *decision.Tree {
	t.Helper()
	yaml := strings.Replace(string(decision.Default().YAML), "inputs:\n", "inputs:\n  acme.confirmation: ["+routes+"]\n", 1)
	acme := driver.Descriptor{
		Name: "acme_confirm", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{"acme.confirmation"},
		Features: []string{driver.FeatureHuman}, Needs: []string{"/experimental/acme~1confirm"},
	}
	tree, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(yaml)}, append(shipped(), acme))
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return tree
}

func declared(t *testing.T, capabilities string) decision.Facts {
	t.Helper()
	return decision.Facts{Client: decision.ClientFacts{Capabilities: decision.Object(json.RawMessage(capabilities))}}
}

func TestARouteMayNeedAnythingThatAClientDeclares(t *testing.T) {
	tree := withAcme(t, "{via: acme_confirm}")
	for capabilities, want := range map[string]bool{
		`{"experimental": {"acme/confirm": {}}}`:    true,
		`{"experimental": {"acme/confirm": true}}`:  true,
		`{"experimental": {"acme/confirm": false}}`: false,
		`{"experimental": {"acme": {}}}`:            false,
		`{"experimental": "acme/confirm"}`:          false,
		`{"extensions": {"acme/confirm": {}}}`:      false,
		`{"acme/confirm": {}}`:                      false,
		`{}`:                                        false,
	} {
		f := declared(t, capabilities)
		d := tree.Decide("acme.confirmation", f)
		if got := d.Route != nil; got != want {
			t.Errorf("with %s the route is open: %t, want %t", capabilities, got, want)
		}
		if last := d.Trace[len(d.Trace)-1]; !want && last.Reason != "client lacks /experimental/acme~1confirm" {
			t.Errorf("with %s the walk ends with %q, want what the client lacks", capabilities, last.Reason)
		}
		r := recorded(t, tree, "acme.confirmation", f)
		if diff := cmp.Diff(d, tree.Decide(r.Kind, r.Facts)); diff != "" {
			t.Errorf("with %s decided again on what was recorded (-then +now):\n%s", capabilities, diff)
		}
	}
}

func TestConditionsSeeAllThatAClientDeclared(t *testing.T) {
	f := declared(t, `{"experimental": {"acme/confirm": {"voice": true}}, "sampling": {"tools": {}}, "secret": {"token": "hidden"}}`)
	for condition, want := range map[string]bool{
		`has(client.capabilities.sampling.tools)`:                                      true,
		`has(client.capabilities.sampling.context)`:                                    false,
		`has(client.capabilities.tasks)`:                                               false,
		`client.capabilities.experimental["acme/confirm"].voice == true`:               true,
		`"acme/confirm" in client.capabilities.experimental`:                           true,
		`has(client.capabilities.extensions) && "a" in client.capabilities.extensions`: false,
		`client.capabilities.extensions.a == 1`:                                        false, // an error, which does not hold
	} {
		tree := withAcme(t, "{via: acme_confirm, when: '"+condition+"'}")
		d := tree.Decide("acme.confirmation", f)
		if got := d.Route != nil; got != want {
			t.Errorf("%s: %t, want %t", condition, got, want)
		}
		raw, err := tree.Record("acme.confirmation", f)
		if err != nil || strings.Contains(string(raw), "hidden") {
			t.Errorf("%s: the record holds what no condition looks at: %s, %v", condition, raw, err)
		}
		if r := recorded(t, tree, "acme.confirmation", f); !cmp.Equal(d, tree.Decide(r.Kind, r.Facts)) {
			t.Errorf("%s: what was recorded leads to another decision", condition)
		}
	}
}

func TestARecordOfALargeDeclarationIsBounded(t *testing.T) {
	tree := withAcme(t, "{via: acme_confirm}")
	f := declared(t, `{"experimental": {"acme/confirm": {}, "x": "`+strings.Repeat("x", 1<<15)+`"}}`)
	r := recorded(t, tree, "acme.confirmation", f)
	if diff := cmp.Diff(map[string][]string{"client.capabilities": {"experimental"}}, r.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}

func TestKindsAreThoseWithRoutes(t *testing.T) {
	want := []string{"evidence", "acceptance", "acme.confirmation", "approval", "files", "judge", "run_input"}
	if diff := cmp.Diff(want, withAcme(t, "{via: acme_confirm}").Kinds()); diff != "" {
		t.Errorf("Kinds (-want +got):\n%s", diff)
	}
}
