package driverstest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Knobs make a driver fail ("shell") or refuse every challenge ("strict shell").
type Knobs map[string]bool

// Checking is a setup whose tree sends every input to the agent, and whose
// challenge drivers only check challenges: they refuse what has the key "bad". One
// named "count" declares that its output is a number n.
func Checking(k Knobs, types ...string) (Fixed, error) {
	all := []driver.Descriptor{{Name: "agent", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence}}}
	for _, name := range types {
		d := driver.Descriptor{Name: name, Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{name}}
		if name == "count" {
			d.OutputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`)
		}
		all = append(all, d)
	}
	tree, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(
		"defaults: {missing_type: shell, no_challenge_type: comment}\nchallenges:\n  - {name: any, match: {}, evidence: [{via: agent}]}\n",
	)}, all)
	return Fixed{Drivers: checkers{knobs: k, all: all}, Tree: tree}, err
}

type checkers struct {
	drivers.Finder
	knobs Knobs
	all   []driver.Descriptor
}

func (c checkers) Describe(name string) (driver.Descriptor, string, bool) {
	i := slices.IndexFunc(c.all, func(d driver.Descriptor) bool { return d.Name == name })
	if i < 0 {
		return driver.Descriptor{}, "", false
	}
	return c.all[i], "", true
}

func (c checkers) Challenge(name string) (driver.Challenge, bool) {
	return checker{name: name, knobs: c.knobs}, true
}

type checker struct {
	driver.Challenge
	name  string
	knobs Knobs
}

func (c checker) Validate(_ context.Context, req driver.ValidateRequest) (res driver.ValidateResult, err error) {
	var challenge map[string]json.RawMessage
	if err := json.Unmarshal(req.Challenge, &challenge); err != nil {
		return res, fmt.Errorf("decode the challenge: %w", err)
	}
	if c.knobs["strict "+c.name] {
		res.Diagnostics = append(res.Diagnostics, driver.Problem("/"+c.name, "is no longer taken"))
	}
	if strings.Contains(string(challenge[c.name]), `"bad"`) {
		res.Diagnostics = append(res.Diagnostics, driver.Problem("/"+c.name+"/bad", "is bad"))
	}
	res.Templates = []driver.Template{{Pointer: "/" + c.name, Escaping: driver.EscapeText}}
	if c.knobs[c.name] {
		err = fmt.Errorf("driver %s is broken", c.name)
	}
	return res, err
}
