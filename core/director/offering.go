package director

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/grants"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// offerQuestion is what the person is asked now; false: there is nothing to allow.
func offerQuestion(ctx context.Context, t *turn) (in driver.Input, some bool, err error) {
	acts, err := actsOf(ctx, t.e, *t.Chain, *t.Run, t.Caller.Client)
	if err != nil {
		return in, false, err
	}
	cannot := slices.DeleteFunc(slices.Clone(acts.Steps), func(s ActStep) bool { return s.Cannot == "" || s.Grant != "" })
	acts.Steps = slices.DeleteFunc(acts.Steps, func(s ActStep) bool { return s.Cannot != "" || s.Grant != "" })
	if len(acts.Steps) == 0 {
		return in, false, nil
	}
	in, err = offerOf(acts, cannot)
	return in, err == nil, err
}

// offerOf is the question about steps that drivers could do. It names those that
// they cannot do as things are.
func offerOf(acts Acts, cannot []ActStep) (driver.Input, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "KAIROS can do these steps of the protocol %q itself (%d of %d):\n", acts.Title, len(acts.Steps), acts.Total)
	for _, s := range acts.Steps {
		effect := ""
		if s.Effect == driver.EffectReads {
			effect = ", only looks"
		}
		fmt.Fprintf(&b, "%d. %s (driver %s%s)\n", s.Step, s.Label, s.Driver, effect)
		if s.Plan != "" {
			fmt.Fprintf(&b, "%s\n", input.Quote(s.Plan))
		}
	}
	for _, s := range cannot {
		fmt.Fprintf(&b, "It cannot do step %d (%s) now: driver %s says %s\n", s.Step, s.Label, s.Driver, input.QuoteLine(s.Cannot))
	}
	if acts.Earlier != nil {
		fmt.Fprintf(&b, "%s\n", input.Quote(acts.Earlier.String()))
	}
	b.WriteString("Steps that change something ask you each time. Without your approval KAIROS does none of them.\n" +
		"Your answer is for this run. `kairos allow` at the server's terminal allows every run of this version.")
	shown, err := json.Marshal(acts)
	return driver.Input{
		ID: input.GrantKind.Name, Kind: input.GrantKind.Name, Description: b.String(), Schema: input.GrantForm, Display: shown,
		Approval: driver.ApprovalUser, Person: true,
	}, err
}

// acceptOffer keeps what the person allowed: what the question showed, in this run, nothing
// else. A form is worth no more: until people log in, a client can fill it by itself. The
// answer is stored first: another server may have taken one before, and then this one
// allows nothing.
func acceptOffer(ctx context.Context, t *turn, q run.Question) error {
	var shown Acts
	if err := json.Unmarshal(q.Input.Display, &shown); err != nil {
		return fmt.Errorf("read what was offered: %w", err)
	}
	all := make([]grants.Grant, len(shown.Steps))
	for i, s := range shown.Steps {
		all[i] = shown.grant(s, formOf(q))
		all[i].Run = t.Run.ID
	}
	t.recordBegun()
	if err := t.save(ctx); err != nil {
		return err
	}
	defer t.change.Stored()
	_, err := t.e.grants.Allow(ctx, t.Caller, all)
	return err
}

// formOf names the form that was answered. The person who filled it is not identified.
func formOf(q run.Question) string {
	return fmt.Sprintf("a form in %s, through %s", cmp.Or(plain.LineWithin(q.Client.Name, 80), "a client without a name"), q.Via)
}
