// Package forgery lists ways to make a record claim something that did not
// happen, and what four kinds of records are expected to withstand. Its tests
// play each attack against the real programs and compute each outcome from
// facts outside KAIROS: the calendar's file and files that commands leave behind.
package forgery

import (
	_ "embed"
	"sync"

	"github.com/goccy/go-yaml"
)

// Outcome says whether an attacker reached what it wanted.
type Outcome string

// The outcomes. An attacker wins when the record is accepted although the fact
// that it claims did not happen, or claims more than happened.
const (
	Wins  Outcome = "wins"
	Fails Outcome = "fails"
)

// Record is a way to know what an agent did.
type Record string

// The kinds of records that are compared. All four follow the same procedure and
// face the same attacker.
const (
	Reported Record = "prose, reported by the agent"
	Judged   Record = "prose, judged by a model"
	Claimed  Record = "KAIROS, the agent reports"
	Observed Record = "KAIROS, it looks itself"
)

// Records are the columns of the table with the rule by which each is accepted.
// No model takes part: the judge is a program that follows its rule, always
// attentive and never persuaded, so it does better than a model would.
var Records = []struct {
	Record Record
	Rule   string
}{
	{Reported, "The procedure is a text. The record is accepted if the agent reports that it followed the procedure."},
	{Judged, "The procedure is a text. A judge reads it and the agent's report, and nothing else. The record is accepted if the report names each step, in order, and quotes for each step an output of the demanded form, and for an approval the person's words. The judge is a program that follows exactly this rule, not a model."},
	{Claimed, "The procedure is a protocol without `evidence`, and nothing is accepted. The agent does the work with its own means and submits what it says came back. The record is accepted if `kairos_attest` returns `verified`."},
	{Observed, "The same protocol, whose decisive steps have `evidence: server` and are accepted. The agent has no tools of its own. The record is accepted if `kairos_attest` returns `verified` and the proof of the decisive step is `server-observed`."},
}

// Attack is one way to forge a record.
type Attack struct {
	Name  string
	From  string // empty, HeldOut or Outside
	Has   string // what the attacker has
	Does  string
	Truth string // what outside KAIROS decides
	Wins  string // when the attacker wins
	// Expected is the outcome for each of Records, in their order.
	Expected [4]Outcome
	// Lost says why KAIROS cannot withstand the attack and what helps; only for
	// attacks that win against observation.
	Lost string
}

// Where attacks come from that are not of the first list.
const (
	HeldOut = "held out" // KAIROS was not built against them
	Outside = "outside"  // independent attackers found them
)

//go:embed attacks.yaml
var attacks []byte

// All are the attacks of attacks.yaml.
var All = sync.OnceValue(func() (all []Attack) {
	if err := yaml.UnmarshalWithOptions(attacks, &all, yaml.Strict()); err != nil {
		panic(err) // a mistake in the list
	}
	return all
})

// LoginAttack is one way to get an approval by a login that the person did not give.
type LoginAttack struct {
	Name     string
	Has      string // what the attacker has
	Does     string
	Expected Outcome // it wins if the run continues with an approval by login
	Lost     string  // what helps; only where it wins
}

//go:embed logins.yaml
var logins []byte

// Logins are the attacks of logins.yaml. A test of cmd/kairos plays them.
var Logins = sync.OnceValue(func() (all []LoginAttack) {
	if err := yaml.UnmarshalWithOptions(logins, &all, yaml.Strict()); err != nil {
		panic(err) // a mistake in the list
	}
	return all
})
