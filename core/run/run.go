// Package run is the state machine of one execution of a protocol. It is pure:
// a Run and an Event give the next Run (see Apply), and storing it is the
// engine's work. It knows no driver, no store and no clock.
package run

import (
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// ID identifies a run; a UUIDv7.
type ID string

// State is where a run stands.
type State string

// The states.
const (
	// Open: the current step waits, and nobody is being asked.
	Open State = "open"
	// Asking: a question about the current step is out.
	Asking State = "asking"
	// Waiting: a driver was called, and the call has no known outcome yet.
	Waiting State = "waiting"
	// Complete: every step is solved; the run waits to be attested.
	Complete State = "complete"
	// Closed: attested.
	Closed State = "closed"
	// Ended: abandoned, or its time to live has passed.
	Ended State = "ended"
)

// Live reports whether the run can still change.
func (s State) Live() bool { return s == Open || s == Asking || s == Waiting || s == Complete }

// Run is one execution of a protocol. A value: Apply returns a changed copy. Its
// JSON is the head that every save replaces, so it does not grow with the steps;
// the events of the run tell its past (see Recall).
type Run struct {
	ID ID `json:"id"`
	// Revision counts saved changes; a save succeeds only on the revision it loaded.
	Revision  int64  `json:"revision"`
	Principal string `json:"principal"`
	Space     string `json:"space"`
	// Connection that began the run, or resumed it last; empty if it kept none.
	Connection string `json:"connection,omitempty"`
	ChainID    string `json:"chain_id"`
	Title      string `json:"title"`
	// Pin is the digest of the chain as it was when the run began.
	Pin       string          `json:"pin"`
	StepCount int             `json:"step_count"`
	Input     json.RawMessage `json:"input,omitempty"`
	// Roots are the folders, as absolute paths, that whoever began the run says
	// it works in. They entitle nobody to look there.
	Roots []string `json:"roots,omitempty"`
	State State    `json:"state"`
	// EndedBy says why an ended run has ended: Expired or Abandoned.
	EndedBy Kind `json:"ended_by,omitempty"`
	// Step is the current step; its Index equals StepCount+1 when complete.
	Step    Step   `json:"step"`
	Seq     int64  `json:"seq"`               // last question number given out
	Outcome string `json:"outcome,omitempty"` // what the attestation said
	// FirstNonce is the one that the run began with.
	FirstNonce string `json:"first_nonce"`
	// MovedAt is when kairos_next, or an answer to its question, last changed the run.
	MovedAt   time.Time `json:"moved_at,omitzero"`
	Spent     Spent     `json:"spent,omitzero"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// Clock is what the server's clock showed when the run was last changed, where
	// that is less than UpdatedAt, else zero.
	Clock time.Time `json:"clock,omitzero"`

	Past `json:"-"`
}

// Stamp is when the next event happens, by what the server's clock shows: At,
// and Clock where it is needed. Events of a run are in the order of their times,
// also after the clock was set back.
func (r Run) Stamp(clock time.Time) (at, shown time.Time) {
	if clock.Before(r.UpdatedAt) {
		return r.UpdatedAt.Add(time.Nanosecond), clock
	}
	return clock, time.Time{}
}

// ChangedAt is what the server's clock showed when the run was last changed. It
// showed that or less when the approval was granted that the run has.
func (r Run) ChangedAt() time.Time { return shown(r.UpdatedAt, r.Clock) }

func (e Event) shown() time.Time { return shown(e.At, e.Clock) }

func shown(at, clock time.Time) time.Time {
	if clock.IsZero() {
		return at
	}
	return clock
}

// Spent counts what was asked of language models.
type Spent struct {
	Requests int `json:"requests"`
	Tokens   int `json:"tokens"` // that the models were granted
}

// Plus is the sum of both.
func (s Spent) Plus(more Spent) Spent {
	return Spent{Requests: s.Requests + more.Requests, Tokens: s.Tokens + more.Tokens}
}

// Summary is what lists of runs need.
type Summary struct {
	ID         ID        `json:"id"`
	ChainID    string    `json:"chain_id"`
	Title      string    `json:"title"`
	State      State     `json:"state"`
	EndedBy    Kind      `json:"ended_by,omitempty"` // expired or abandoned
	StepIndex  int       `json:"step_index"`
	StepCount  int       `json:"step_count"`
	Principal  string    `json:"principal"`
	Connection string    `json:"connection,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
	// Worth is Run.Worth in lists that were asked for it, otherwise empty.
	Worth string `json:"worth,omitempty"`
}

// Summary of the run.
func (r Run) Summary() Summary {
	return Summary{
		ID: r.ID, ChainID: r.ChainID, Title: r.Title, State: r.State, EndedBy: r.EndedBy, StepIndex: r.Step.Index,
		StepCount: r.StepCount, Principal: r.Principal, Connection: r.Connection,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// Step is the state of the current step.
type Step struct {
	Index int `json:"index"` // 1-based
	// Nonce identifies (run, step); empty when the run is complete.
	Nonce string `json:"nonce,omitempty"`
	Tries
	// Events and EventBytes are what the record holds of the step.
	Events     int `json:"events,omitempty"`
	EventBytes int `json:"event_bytes,omitempty"`
	// Inputs the challenge driver asked for and that have no answer yet.
	Inputs  []driver.Input  `json:"inputs,omitempty"`
	Answers []driver.Answer `json:"answers,omitempty"`
	// Demand is what rules demand because of what the step does, or nil.
	Demand *Demand `json:"demand,omitempty"`
	// Gated: an approval must stand in front of the evidence.
	Gated bool `json:"gated,omitempty"`
	// Digest of the evidence input as the driver asked for it.
	Digest string `json:"digest,omitempty"`
	// Approval, once granted, is bound to Digest.
	Approval *Approval `json:"approval,omitempty"`
	// Votes are the approvals of people, before there are enough for Approval.
	Votes []Vote `json:"votes,omitempty"`
	// Question that is out; set exactly in the state Asking.
	Question *Question `json:"question,omitempty"`
	// Plan is what a driver is about to do.
	Plan *Plan `json:"plan,omitempty"`
	// Call of a driver that has no known outcome yet; set exactly in the state
	// Waiting.
	Call *Call `json:"call,omitempty"`
	// Attempts counts, by input id, the attempts to obtain the input that came to
	// an outcome; "" counts those at the step itself.
	Attempts map[string]int `json:"attempts,omitempty"`
	// Refused says, by input id, why its last answer was refused.
	Refused map[string][]driver.Diagnostic `json:"refused,omitempty"`
	// Automatic are the answers that clients gave to a person's questions of the step themselves.
	Automatic []Automatic `json:"automatic,omitempty"`
	// Link is that of a question that a client answered itself, so that whoever has it can still answer.
	Link *ApprovalLink `json:"link,omitempty"`
	// Delays are how long the answers took, by input id.
	Delays map[string]Delay `json:"delays,omitempty"`
	// Declines: input id to the capability driver through which a person declined.
	Declines map[string]string `json:"declines,omitempty"`
	// LastDecline is the latest decline at this step, also when it was taken back, or nil.
	LastDecline *Decline `json:"last_decline,omitempty"`
	// DeclineCount counts how often a person declined this step.
	DeclineCount int `json:"noes,omitempty"`
	// Tried routes, by input id.
	Tried []Attempt    `json:"tried,omitempty"`
	State driver.State `json:"driver_state"`
	Round int          `json:"round,omitempty"`
	// Withheld is the challenge driver's verdict, until a judge has spoken as well.
	Withheld *WithheldVerdict `json:"held,omitempty"`
	// Sensitive: some evidence of the step must not be shown to a model.
	Sensitive bool `json:"sensitive,omitempty"`
	// PendingDecline is why a person declined on the approval page, until a reply to a
	// client tells of it.
	PendingDecline string `json:"untold_no,omitempty"`
	// Early is work that was submitted before it was approved, or nil.
	Early *Early `json:"early,omitempty"`
	// Done is what a driver already did for the step, whose result was refused; nil:
	// nothing.
	Done *Done `json:"done,omitempty"`
	// Claim is the digest of the last evidence that could not count.
	Claim string `json:"claim,omitempty"`
	// Superseded are the numbers of a person's questions that ended with a restart,
	// or because another way was passed over: a decline of one of them still counts.
	Superseded []int64 `json:"superseded,omitempty"`
}

// Demand is what rules of the operator demanded of a step because of what it does, when its
// driver asked for its inputs. It holds for the step, also once they are answered.
type Demand struct {
	Evidence []driver.Provenance `json:"evidence,omitempty"` // those that count; nil: all
	Judge    string              `json:"judge,omitempty"`    // the driver that judges
	By       []string            `json:"by,omitempty"`       // the rules
}

// WithheldVerdict is evidence that its driver accepted and that waits for a judge.
type WithheldVerdict struct {
	Proof  json.RawMessage `json:"proof"`
	Output json.RawMessage `json:"output"`
	// Provenance and Via are of who vouches for it, Driver accepted it.
	Provenance driver.Provenance `json:"provenance"`
	Via        string            `json:"via"`
	Driver     DriverRef         `json:"driver"`
}

// Early is work that was submitted before the approval of its step.
type Early struct {
	Times int       `json:"times"`
	First time.Time `json:"first"`
	// Digest of the last such submission: the same again is not another.
	Digest string `json:"digest"`
}

// Done is what a driver did for a step that is not solved: another attempt does it again.
type Done struct {
	Driver string    `json:"driver"`
	Times  int       `json:"times"`
	Last   time.Time `json:"last"` // when the result was refused
}

// Question is an open question, recorded before it is asked.
type Question struct {
	Seq    int64                `json:"seq"`
	Input  driver.Input         `json:"input"`
	Digest string               `json:"digest"` // of the evidence input as shown
	Via    string               `json:"via"`
	Route  int                  `json:"route"`
	Path   string               `json:"path,omitempty"` // of the route in the tree
	Human  bool                 `json:"human,omitempty"`
	Ask    driver.ClientRequest `json:"ask"`
	// Needs are pointers into what a client declares: one that lacks any of them is
	// not sent Ask. Empty in records of older versions, which asked only what MCP
	// defines.
	Needs []string `json:"needs,omitempty"`
	// Link, if set, is another way to answer.
	Link *ApprovalLink `json:"link,omitempty"`
	// Elsewhere, if set, is what the agent tells the person: Link is the only
	// way to answer, and nothing is sent to the client.
	Elsewhere string `json:"elsewhere,omitempty"`
	// How is the way in which an approval is answered, as its driver names it; empty for other inputs.
	How string `json:"how,omitempty"`
	// Phrase has to be typed to approve, or empty.
	Phrase string `json:"phrase,omitempty"`
	// Short: it shows only how what is approved begins and ends. The rest is in Input.
	Short bool `json:"short,omitempty"`
	// Asked counts how often this input went out through this route.
	Asked int `json:"asked"`
	// Unanswered counts how often the client came back to this question without
	// an answer.
	Unanswered int `json:"unanswered,omitempty"`
	// Dismissed counts how often in a row the person closed this question without
	// an answer. Closed is when they did so last, zero while the question is out.
	Dismissed int       `json:"dismissed,omitempty"`
	Closed    time.Time `json:"closed,omitzero"`
	// Key and Attempt are those of the call that rendered it.
	Key     string `json:"key,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Repairs counts invalid replies so far.
	Repairs int `json:"repairs,omitempty"`
	// Earlier numbers of the same question to the same input: an approval of them
	// comes too late, a decline counts.
	Earlier []int64 `json:"earlier,omitempty"`
	// Unheard is how many of the last proofs the reply that waits for this
	// question has to report; nobody outside knows of them yet.
	Unheard int `json:"unheard,omitempty"`
	// Note is what that reply has to say besides.
	Note string `json:"note,omitempty"`
	// Since is when the call began that waits for the answer. The call continues
	// with it, and does not try again what it has tried.
	Since   time.Time `json:"since,omitzero"`
	AskedAt time.Time `json:"asked_at"`
	// Client that was asked.
	Client driver.Client `json:"client"`
	// Asker is whose call asked, where a condition reads that; nil: none does, or nobody is identified.
	Asker *Asker `json:"asker,omitempty"`
	// Driver version that rendered the question.
	Driver DriverRef `json:"driver"`
}

// Asker is who makes a call on a run, as far as conditions see it.
type Asker struct {
	Name   string   `json:"name,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Method string   `json:"method,omitempty"`
}

// Attempt is a route that is finished for an input.
type Attempt struct {
	Input   string    `json:"input"`
	Route   int       `json:"route"`
	Path    string    `json:"path,omitempty"` // of the route in the tree
	Via     string    `json:"via"`
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason,omitempty"`
	At      time.Time `json:"at"`
	// Untried: the route was not meant for the input as it was then.
	Untried bool `json:"untried,omitempty"`
}
