package drivertest_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

const confirmCapability = "/experimental/acme~1confirm"

// confirmer asks with the method, whatever the client declared if it is careless.
type confirmer struct {
	method   string
	careless bool
}

func (c confirmer) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	if !c.careless && !req.Client.Declares(confirmCapability) {
		return driver.CannotRender("the client cannot confirm"), nil
	}
	return driver.AskClient(c.method, json.RawMessage(`{}`)), nil
}

func (confirmer) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("nothing is read here"), nil
}

func TestRequestsAreComparedWithTheDescriptor(t *testing.T) {
	for name, tc := range map[string]struct {
		driver confirmer
		want   string // in the finding; empty: none
	}{
		"listed":                     {confirmer{method: "acme/confirm"}, ""},
		"not listed":                 {confirmer{method: "acme/erase"}, "does not declare"},
		"a method of MCP":            {confirmer{method: "roots/list"}, "does not declare"},
		"the client did not declare": {confirmer{method: "acme/confirm", careless: true}, confirmCapability},
	} {
		s := drivertest.Subject{
			Descriptor: driver.Descriptor{
				Name: "confirmer", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{"acme.confirmation"}, Effect: driver.EffectPure,
				Sends: []driver.ClientMethod{{Method: "acme/confirm", Needs: []string{confirmCapability}}},
			},
			Capability: tc.driver,
		}
		report := verify(t, s, drivertest.Options{Only: []string{"capability/undeclared"}})
		if len(report.Results) != 1 {
			t.Fatalf("%s: results = %+v, want one", name, report.Results)
		}
		got := report.Results[0]
		failed := got.Status == drivertest.Failed
		if failed != (tc.want != "") || failed && !strings.Contains(got.Detail, tc.want) {
			t.Errorf("%s: %s %q, want %q in the finding", name, got.Status, got.Detail, tc.want)
		}
	}
}
