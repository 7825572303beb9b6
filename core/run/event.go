package run

import (
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Kind of an event.
type Kind string

// The kinds of events.
const (
	// Needed: the challenge driver asked for inputs.
	Needed Kind = "needed"
	// Asked: a question goes out to the client.
	Asked Kind = "asked"
	// Answered: the reply to the open question is an answer.
	Answered Kind = "answered"
	// PartlyApproved: one of several people approved on the page. The question stays open.
	PartlyApproved Kind = "partly_approved"
	// Repaired: the reply was not an answer; the same question goes out again under a new number.
	Repaired Kind = "repaired"
	// Unanswered: the client came back without an answer to the open question.
	Unanswered Kind = "unanswered"
	// Dismissed: the person closed the question without an answer. It stays open under a new number.
	Dismissed Kind = "dismissed"
	// Automated: the client answered the open question itself, faster than a person can. It decides nothing.
	Automated Kind = "automated"
	// Opened: somebody opened the page behind the open question's link.
	Opened Kind = "opened"
	// Premature: work for the step was submitted before its approval. It is not counted.
	Premature Kind = "submitted_before_approval"
	// Claimed: evidence was submitted for a step that takes the agent's word for nothing. It is not counted.
	Claimed Kind = "claimed"
	// Planned: a driver said what it would do to obtain the evidence.
	Planned Kind = "planned"
	// Supplied: an answer that needed no question: from the agent's solution or the core.
	Supplied Kind = "supplied"
	// RouteClosed: a route is finished for an input without an answer.
	RouteClosed Kind = "route_closed"
	// Declined: a person declined an input.
	Declined Kind = "declined"
	// Undeclined: the operator took back what people had declined. In any state.
	Undeclined Kind = "undeclined"
	// Adopted: the operator gave the run to another principal, or its protocol moved to another space.
	Adopted Kind = "adopted"
	// Accepted: the challenge driver accepted the evidence.
	Accepted Kind = "accepted"
	// Withheld: the challenge driver accepted the evidence, and a judge is to speak first.
	Withheld Kind = "withheld"
	// Rejected: the challenge driver refused the evidence.
	Rejected Kind = "rejected"
	// Refused: a submission was refused before anybody judged its evidence.
	Refused Kind = "refused"
	// Called: a driver that changes the world is about to be called. It is
	// stored before the call.
	Called Kind = "called"
	// Deferred: the outcome of a driver's call is pending.
	Deferred Kind = "deferred"
	// Cancelled: somebody wants the open call to end. Its driver is told when it is
	// asked next.
	Cancelled Kind = "cancelled"
	// Unsettled: nobody can tell whether the open call acted.
	Unsettled Kind = "unsettled"
	// Settled: the open call came to an outcome that no other event reports.
	Settled Kind = "settled"
	// Decided: a person says whether the open call happened.
	Decided Kind = "decided"
	// Reissued: the step gets a fresh nonce.
	Reissued Kind = "reissued"
	// Restarted: the step's challenge starts over at round 0.
	Restarted Kind = "restarted"
	// Lapsed: the approval of the open step is too old, and approves nothing any more.
	Lapsed Kind = "approval_lapsed"
	// Told: a reply tells the client of a decline on the approval page.
	Told Kind = "told"
	// Attested: the run is closed with an outcome.
	Attested Kind = "attested"
	// Expired: the run ends unattested, because its time has passed.
	Expired Kind = "expired"
	// Abandoned: the run ends unattested, because somebody gave it up.
	Abandoned Kind = "abandoned"
	// Redacted: values were erased; digests stay. In any state.
	Redacted Kind = "redacted"
)

// Event is something that happened to a run. Which fields are set depends on
// Kind; Apply refuses an event that lacks what its kind needs.
type Event struct {
	Kind Kind `json:"kind"`
	Run  ID   `json:"run"`
	Step int  `json:"step"` // index of the step meant
	// At is never before the event before it; see Run.Stamp.
	At time.Time `json:"at"`
	// Clock is what the server's clock showed, where it was set back and showed
	// less than At, else zero.
	Clock time.Time `json:"clock,omitzero"`
	// Unrecorded: the record holds enough events of the step, and only counts this one.
	Unrecorded bool `json:"-"`

	Inputs   []driver.Input `json:"inputs,omitempty"` // Needed
	Demand   *Demand        `json:"demand,omitempty"` // Needed, Planned: what rules demand because of what is done
	Gated    bool           `json:"gated,omitempty"`  // Needed, Planned
	Digest   string         `json:"digest,omitempty"` // Needed, Planned
	State    driver.State   `json:"driver_state"`     // Needed
	Question *Question      `json:"question,omitempty"`
	Seq      int64          `json:"seq,omitempty"` // Answered, PartlyApproved, Unanswered, Dismissed, Opened, Declined, RouteClosed on a question
	Input    string         `json:"input,omitempty"`
	// Via is who obtained it; Rejected: the challenge driver, if it looked itself.
	Via    string         `json:"via,omitempty"`
	Answer *driver.Answer `json:"answer,omitempty"`
	// Sent is what an agent submitted, where the answer was read from another form of it.
	Sent     json.RawMessage `json:"sent,omitempty"`
	Approval *Approval       `json:"approval,omitempty"`
	Vote     *Vote           `json:"vote,omitempty"`  // PartlyApproved
	Apart    bool            `json:"apart,omitempty"` // Declined: on the approval page, so that no call tells of it yet
	Attempt  *Attempt        `json:"attempt,omitempty"`
	Visit    *Visit          `json:"visit,omitempty"` // Opened; Answered, on the page
	Proof    *Proof          `json:"proof,omitempty"`
	Evidence *Evidence       `json:"evidence,omitempty"`
	Nonce    string          `json:"nonce,omitempty"` // next nonce: Accepted, Reissued
	// Solves is the nonce that the proof uses up: Accepted.
	Solves string `json:"solves,omitempty"`
	// Connection that continues the run, empty for the same as before: Reissued. The one that answered: Automated
	Connection string `json:"connection,omitempty"`
	By         string `json:"by,omitempty"`      // who did it: Undeclined, as they say; Answered and Declined, on the page by a principal
	Name       string `json:"name,omitempty"`    // what people call the principal By, where the operator lets records say it
	Code       string `json:"code,omitempty"`    // Rejected, Refused
	Reason     string `json:"reason,omitempty"`  // for people
	Outcome    string `json:"outcome,omitempty"` // Attested
	// Bonus is the quality bonus that the attestation was answered with. Attested
	Bonus    *float64         `json:"bonus,omitempty"`
	Withheld *WithheldVerdict `json:"held,omitempty"` // of Withheld
	Plan     *Plan            `json:"plan,omitempty"` // Planned
	// Call that is open: Called, Deferred.
	Call     *Call     `json:"call,omitempty"`
	Decision *Decision `json:"decision,omitempty"` // Decided
	// Diagnostics say why the answer was refused: Repaired, RouteClosed, Rejected.
	Diagnostics []driver.Diagnostic `json:"diagnostics,omitempty"`
	// Spent is what models were asked for since the event before.
	Spent Spent `json:"spent,omitzero"`
	// Owner is whose the run is from now on: Adopted
	Owner *Owner `json:"owner,omitempty"`
	// Redaction says what was erased: Redacted.
	Redaction *Redaction `json:"redaction,omitempty"`
	// Walk through the decision tree that led here, for explanations.
	Walk json.RawMessage `json:"walk,omitempty"`
	// Facts that the walk was made on, as core/decision records them.
	Facts json.RawMessage `json:"facts,omitempty"`
	// Delay is how long the answer took, from when its question was sent; nil: it is not known.
	// Answered, Supplied, Declined, Dismissed, Repaired, Automated
	Delay *Delay `json:"delay,omitempty"`
	// Took is how long the route was tried that this ends.
	Took time.Duration `json:"took,omitempty"`
}
