package offers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Question asks whether the person accepts what the offer can do and nobody accepted yet, and
// names what drivers cannot do as things are; false: there is nothing to accept.
func (o Offer) Question() (in driver.Input, some bool, err error) {
	cannot := slices.DeleteFunc(slices.Clone(o.Steps), func(s Step) bool { return s.Cannot == "" || s.Acceptance != "" })
	o.Steps = slices.DeleteFunc(slices.Clone(o.Steps), func(s Step) bool { return s.Cannot != "" || s.Acceptance != "" })
	if len(o.Steps) == 0 {
		return in, false, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "KAIROS can do these steps of the protocol %q itself (%d of %d):\n", o.Title, len(o.Steps), o.Total)
	for _, s := range o.Steps {
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
	if o.Earlier != nil {
		fmt.Fprintf(&b, "%s\n", input.Quote(o.Earlier.String()))
	}
	b.WriteString("Steps that change something ask you each time. Without your approval KAIROS does none of them.\n" +
		"Your answer is for this run. `kairos accept` at the server's terminal accepts every run of this version.")
	shown, err := json.Marshal(o)
	in = driver.Input{
		ID: input.AcceptanceKind.Name, Kind: input.AcceptanceKind.Name, Description: b.String(), Schema: input.AcceptanceForm, Display: shown,
		Approval: driver.ApprovalUser, Person: true,
	}
	return in, err == nil, err
}

// Accepted is what a person accepted by the answer to a question in a run: what it showed, in
// this run, and nothing else. A form is worth no more: until people log in, a client can
// fill it by itself. The delay is how long the answer took; nil: it is not known.
func Accepted(q run.Question, id run.ID, delay *run.Delay) ([]acceptances.Acceptance, error) {
	var shown Offer
	if err := json.Unmarshal(q.Input.Display, &shown); err != nil {
		return nil, fmt.Errorf("read what was offered: %w", err)
	}
	all := make([]acceptances.Acceptance, len(shown.Steps))
	for i, s := range shown.Steps {
		all[i] = shown.acceptance(s, formOf(q, delay))
		all[i].Run = id
	}
	return all, nil
}

// formOf names the form that was answered, and says if it was faster than a person can be. The person
// who filled it is not identified.
func formOf(q run.Question, delay *run.Delay) string {
	by := fmt.Sprintf("a form in %s, through %s", cmp.Or(plain.LineWithin(q.Client.Name, 80), "a client without a name"), q.Via)
	if quick := delay.Words(); quick != "" {
		by += ", " + quick
	}
	return by
}
