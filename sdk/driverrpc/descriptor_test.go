package driverrpc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

func TestDescriptorsWithUnsoundSendsAreRefused(t *testing.T) {
	confirm := driver.ClientMethod{Method: "acme/confirm", Needs: []string{"/experimental/acme~1confirm"}}
	for name, tc := range map[string]struct {
		change func(d *driver.Descriptor)
		want   string // in the error; empty: none
	}{
		"sound":              {func(d *driver.Descriptor) { d.Sends = []driver.ClientMethod{confirm, {Method: "roots/list"}} }, ""},
		"needs a pointer":    {func(d *driver.Descriptor) { d.Needs = confirm.Needs }, ""},
		"needs a bad one":    {func(d *driver.Descriptor) { d.Needs = []string{"/experimental/~"} }, "RFC 6901"},
		"needs something":    {func(d *driver.Descriptor) { d.Needs = []string{"confirm"} }, "nor a pointer"},
		"twice":              {func(d *driver.Descriptor) { d.Sends = []driver.ClientMethod{confirm, confirm} }, "twice"},
		"a method of MCP":    {func(d *driver.Descriptor) { d.Sends = []driver.ClientMethod{{Method: "tools/call"}} }, "belongs to MCP"},
		"a challenge driver": {func(d *driver.Descriptor) { d.Role, d.Sends = driver.RoleChallenge, []driver.ClientMethod{confirm} }, "capability driver"},
		"very many": {func(d *driver.Descriptor) {
			for i := range 17 {
				d.Sends = append(d.Sends, driver.ClientMethod{Method: fmt.Sprintf("acme/confirm%d", i), Needs: confirm.Needs})
			}
		}, "at most 16"},
	} {
		d := capabilityDescriptor()
		tc.change(&d)
		err := driverrpc.CheckDescriptor(d)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: CheckDescriptor() = %v, want %q in it", name, err, tc.want)
		}
	}
}
