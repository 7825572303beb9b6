package run

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Approval is a person's yes to one evidence input, or the decision to leave
// that yes to the client's review of the request.
type Approval struct {
	Digest     string            `json:"digest"` // of the evidence input as shown
	Via        string            `json:"via"`
	Route      int               `json:"route"`
	Provenance driver.Provenance `json:"provenance"`
	// ClientReview: the evidence must come through Via itself.
	ClientReview bool `json:"client_review,omitempty"`
	// Basis is how the yes came.
	Basis Basis `json:"basis,omitempty"`
	// By is the principal who answered on the approval page, where who answers
	// is known.
	By string `json:"by,omitempty"`
	// Name is what people call the principal, where the operator lets records say it.
	Name string `json:"name,omitempty"`
	// Votes are those of all people who approved, where they had to log in.
	Votes []Vote `json:"votes,omitempty"`
	// Typed: a phrase had to be typed, and was.
	Typed bool `json:"typed,omitempty"`
	// Phrase is the SHA-256 of that phrase, in hex.
	Phrase string `json:"phrase,omitempty"`
	// Visits are how the approval page was reached: each time it was opened before
	// the answer, then the answer itself. At most MaxVisits openings are kept.
	Visits []Visit `json:"visits,omitempty"`
	// Premature is how often work was submitted before this approval.
	Premature int `json:"submitted_before,omitempty"`
	// Questions are the numbers under which the client was asked what was
	// answered on the page: its no may still come.
	Questions []int64 `json:"questions,omitempty"`
	// Delay is how long the answer took, from when its question was sent; nil: it is not known.
	Delay     *Delay    `json:"delay,omitempty"`
	GrantedAt time.Time `json:"granted_at"`
	ExpiresAt time.Time `json:"expires_at"`
	// Lapsed: it covers the open call, and nothing that comes after it.
	Lapsed bool `json:"lapsed,omitempty"`
}

// Expired reports whether the approval is too old at that time.
func (a Approval) Expired(at time.Time) bool { return !a.ExpiresAt.IsZero() && at.After(a.ExpiresAt) }

// AskedFor records the phrase that had to be typed; empty: none.
func (a *Approval) AskedFor(phrase string) {
	a.Typed, a.Phrase = phrase != "", digestOf(phrase)
}

// Has reports whether the phrase was typed, or nothing has to be.
func (a *Approval) Has(phrase string) bool { return phrase == "" || a.Phrase == digestOf(phrase) }

// digestOf is the SHA-256 of a phrase in hex, or empty if nothing has to be typed.
func digestOf(phrase string) string {
	if phrase == "" {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(phrase)))
}

// Vote is the approval of one person who has logged in. An approval may need those of several.
type Vote struct {
	By string `json:"by"` // the principal
	// Name is what people call the principal, where the operator lets records say it.
	Name string `json:"name,omitempty"`
	// As are the people and groups that were asked for and that the person was, or belonged to.
	As []string `json:"as,omitempty"`
	// Runner: the person owns the run.
	Runner bool `json:"runner,omitempty"`
	// Digest is of the evidence input as shown, and Phrase the SHA-256 of what was typed, in hex, or empty.
	Digest    string    `json:"digest"`
	Phrase    string    `json:"phrase,omitempty"`
	At        time.Time `json:"at"`
	ExpiresAt time.Time `json:"expires_at"`
	// Visit is how the answer reached the server.
	Visit Visit `json:"visit"`
}

// Typed records the phrase that had to be typed; empty: none.
func (v *Vote) Typed(phrase string) { v.Phrase = digestOf(phrase) }

// Has reports whether the phrase was typed, or nothing has to be.
func (v Vote) Has(phrase string) bool { return phrase == "" || v.Phrase == digestOf(phrase) }

// partlyApproved keeps the approval of one of several people. The question stays open.
func partlyApproved(r *Run, e Event) error {
	q, v := r.Step.Question, e.Vote
	switch {
	case q.Seq != e.Seq:
		return ErrStale
	case v == nil || v.By == "" || q.Input.ID != approvalInput || !r.Step.Gated:
		return lacks("whose approval it is, or an approval that is asked for")
	case v.Digest != r.Step.Digest:
		return fmt.Errorf("it approves something else than the open evidence: %w", ErrUnapproved)
	}
	if by, no := r.Step.Declines[approvalInput]; no {
		return fmt.Errorf("the approval was declined through %s: %w", by, ErrDeclined)
	}
	votes := slices.DeleteFunc(slices.Clone(r.Step.Votes), func(old Vote) bool { return old.By == v.By || old.Digest != v.Digest })
	votes = append(votes, *v)
	r.Step.Votes = votes
	return nil
}

// Basis is how a person's yes came to the server: one of these, or a driver's own word
// (driver.Descriptor.AnswersBy). None of them proves that a person was there.
type Basis string

// The bases.
const (
	// BasisForm: a form that the client showed.
	BasisForm Basis = "form"
	// BasisPage: the approval page, by a principal who was identified.
	BasisPage Basis = "page"
	// BasisLink: the approval page, by whoever had its link.
	BasisLink Basis = "link"
	// BasisReview: left to the client's own review of the request.
	BasisReview Basis = "review"
	// BasisAgent: the agent's word.
	BasisAgent Basis = "agent"
)

// Way is the way of approving that the operator takes or not (driver.Descriptor.AnswersBy): the
// page, whether who answered on it was identified or not.
func (b Basis) Way() string {
	if b == BasisLink {
		return string(BasisPage)
	}
	return string(b)
}

// ApprovalLink lets a person answer an approval on a page of the server, apart from the
// client. It is the question's and ends with it.
type ApprovalLink struct {
	// Number is unique among the links of the run. The last part of the link, with which
	// anybody may answer, is derived from it and the server's key, and not stored.
	Number int64 `json:"number"`
	// Input that the question is about; empty in older records: the approval.
	Input string `json:"input,omitempty"`
	// Mark is random, and stands in what is stored where the secret stood.
	Mark string `json:"mark"`
	// ReadOnly: the link itself was not given out, but one to the same page that shows what is
	// asked and takes no answer.
	ReadOnly  bool      `json:"read_only,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
	// Opened is when the page behind the link was opened; at most MaxVisits.
	Opened []Visit `json:"opened,omitempty"`
}

// ReadMark is the mark of the link to the same page that takes no answer.
func (l ApprovalLink) ReadMark() string { return l.Mark + "-read" }

// AddressMark stands in what is stored where the whole address of a link stood, by its mark or
// its ReadMark. The address is that of the server that shows it: the port of an earlier process
// may be closed.
func AddressMark(mark string) string { return "approval-page:" + mark }

// MaxVisits is how many openings of an approval page are kept.
const MaxVisits = 16

// Visit is a request for the approval page, as far as the server can tell. It
// says nothing of who made it.
type Visit struct {
	At time.Time `json:"at"`
	// From is the kind of address that it came from, or empty if that is not known.
	From Place `json:"from,omitempty"`
	// Browser: the request looks like a page load of a browser. Any program can
	// make it look so.
	Browser bool `json:"browser,omitempty"`
}

// Place is a kind of network address.
type Place string

// The places.
const (
	ThisMachine    Place = "this machine"
	PrivateNetwork Place = "a private network"
	PublicNetwork  Place = "a public network"
	// BehindProxy: a proxy that is not trusted forwarded the request.
	BehindProxy Place = "behind a proxy"
)

// Decline is a person's decision against an input of the step.
type Decline struct {
	At     time.Time `json:"at"`
	Via    string    `json:"via"`
	Reason string    `json:"reason,omitempty"`
	// TakenBack is when the operator took it back, By who did so and Why. It is zero while the decline stands.
	TakenBack time.Time `json:"taken_back,omitzero"`
	By        string    `json:"by,omitempty"`
	Why       string    `json:"why,omitempty"`
}
