package director_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The step says first whether a person must approve, then the tree's rule, then
// the driver of its type; where none says so, nobody is asked.
func TestTheStepsWordOnApprovalIsBeforeTheRulesAndTheDrivers(t *testing.T) {
	modes := []driver.ApprovalMode{"", driver.ApprovalAuto, driver.ApprovalUser}
	for _, step := range modes {
		for _, rule := range modes {
			for _, desc := range modes {
				asked := desc == driver.ApprovalUser
				if rule != "" {
					asked = rule == driver.ApprovalUser
				}
				if step != "" {
					asked = step == driver.ApprovalUser
				}
				t.Run(fmt.Sprintf("step %q rule %q driver %q", step, rule, desc), func(t *testing.T) {
					w := newWorld(t, nil)
					w.setups.replace(approving(w, rule, desc))
					r := w.begin(w.mint(oneTool(step))[0])
					want := ""
					if asked {
						want = "APPROVAL_UNAVAILABLE" // the client can ask nobody
					}
					w.code(r, want)
				})
			}
		}
	}
}

// oneTool is a protocol with one tool call and an approval mode, if any.
func oneTool(mode driver.ApprovalMode) string {
	says := ""
	if mode != "" {
		says = fmt.Sprintf(`"approval_mode":%q,`, mode)
	}
	return strings.Replace(approvedStep, `"approval_mode":"user",`, says, 1)
}

// approving is a setup whose only rule and whose driver mcp have these modes.
func approving(w *world, rule, desc driver.ApprovalMode) drivers.Setup {
	w.t.Helper()
	c := catalog{fakeDrivers: w.drivers, descriptors: maps.Clone(descriptors)}
	d := c.descriptors["mcp"]
	d.Approval = desc
	c.descriptors["mcp"] = d
	says := "match: {}"
	if rule != "" {
		says += "\n    approval_mode: " + string(rule)
	}
	text := strings.ReplaceAll(strings.Replace(smallTree, "match: {}", says, 1), "ELICIT", "")
	tree, err := decision.Compile(decision.Source{Name: "t.yaml", YAML: []byte(text)}, slices.Collect(maps.Values(c.descriptors)))
	if err != nil {
		w.t.Fatal(err)
	}
	return drivers.Setup{Drivers: c, Tree: tree}
}
