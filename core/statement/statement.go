// Package statement turns a run into a signed statement that can be checked
// without the database: an in-toto Statement in a DSSE envelope, with challenges
// and evidence beside it. It touches no file and no store; it does not judge
// whether a run is good, only whether what is stated hangs together.
package statement

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Types of the statements. PredicateType is below the path of this module, the one
// name that the project owns; no document has to exist there.
const (
	Type          = "https://in-toto.io/Statement/v1"
	PredicateType = "https://github.com/kairos-mcp/kairos/run/v1"
	payloadType   = "application/vnd.in-toto+json"
)

// Record is a run with the other content of its statement.
type Record struct {
	Run run.Run
	// Labels of the steps of its protocol.
	Labels []string
	// Challenges, filled in, one for each proof, empty for those not known any more.
	Challenges []json.RawMessage
	// Revision of the protocol that the run began with, whether what is stored now says
	// the same, and the revision of that.
	Revision, Stored int64
	Current          bool
	// Version of the program that makes the statement.
	Version string
	At      time.Time
}

// Statement is what is signed: an in-toto Statement v1.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"` // the run by its last proof, then the protocol
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is something that the statement is about.
type Subject struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
}

// Digest is of canonical JSON (run.Canonical), in hex.
type Digest struct {
	SHA256 string `json:"sha256"`
}

// Predicate is what is stated of the run.
type Predicate struct {
	Run      RunFacts `json:"run"`
	Protocol Protocol `json:"protocol"`
	Steps    []Step   `json:"steps"` // those with a proof, from the first one on
	// Open is what was tried without success at the step that is not solved, or nil.
	Open *run.Tries `json:"open_tries,omitempty"`
	// Verified: every step has a proof, and the chain was whole when this was made.
	Verified bool      `json:"verified"`
	MadeAt   time.Time `json:"made_at"`
	MadeBy   string    `json:"made_by"` // program and version
}

// RunFacts say which run it was and how it ended.
type RunFacts struct {
	ID      run.ID    `json:"id"`
	State   run.State `json:"state"`
	Outcome string    `json:"outcome,omitempty"` // what the attestation said
	// PrincipalDigest is of {"principal":…,"run":…}: who knows a principal can
	// tell whether it was theirs.
	PrincipalDigest string    `json:"principal_digest"`
	BeganAt         time.Time `json:"began_at"`
	ChangedAt       time.Time `json:"changed_at"`
	StepCount       int       `json:"step_count"`
}

// Protocol says what was run.
type Protocol struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Digest Digest `json:"digest"` // of the protocol as it was when the run began
	// Revision is the one that the run began with. Current: what was stored when the
	// statement was made said the same; StoredRevision 0: the protocol had been deleted.
	Revision       int64 `json:"revision"`
	Current        bool  `json:"current"`
	StoredRevision int64 `json:"stored_revision"`
}

// Step is a completed step.
type Step struct {
	Label string    `json:"label"`
	Proof run.Proof `json:"proof"`
	// Failed: the evidence does not satisfy the challenge, which did not require it.
	Failed bool `json:"failed,omitempty"`
	// Approval that preceded the evidence.
	Approval *run.Approval `json:"approval,omitempty"`
	Answers  []Answer      `json:"answers,omitempty"`
	// Tries is what was tried before without success, or nil.
	Tries *run.Tries `json:"tries,omitempty"`
	// Permission of the driver that did the step itself: the acceptance, and the digest of its plan.
	Permission *run.Permission `json:"permission,omitempty"`
	// EvidenceErased: the run does not hold the evidence any more, so that
	// approval and answers cannot be compared with it.
	EvidenceErased bool `json:"evidence_erased,omitempty"`
}

// Answer says where an answer came from, not what it says.
type Answer struct {
	Input      string            `json:"input"`
	Via        string            `json:"via"`
	Provenance driver.Provenance `json:"provenance"`
	Model      string            `json:"model,omitempty"`
	StopReason string            `json:"stop_reason,omitempty"`
	// Delay is how long it took, from when its question was sent to the client, or nil.
	Delay *run.Delay `json:"delay,omitempty"`
}

// Disclosed is what stands beside the signed statement for one step. Whoever
// has the file may take it out: the statement holds its digests.
type Disclosed struct {
	Step      int             `json:"step"`
	Challenge json.RawMessage `json:"challenge,omitempty"`
	Evidence  json.RawMessage `json:"evidence,omitempty"`
}

// Of makes the statement of a run and what is to stand beside it. A run whose
// proof chain does not hold gets none: the error is a *run.Broken.
func Of(rec Record) (Statement, []Disclosed, error) {
	r := rec.Run
	if err := r.Verify(); err != nil {
		return Statement{}, nil, err
	}
	principal, err := principalDigest(r)
	if err != nil {
		return Statement{}, nil, err
	}
	s := Statement{
		Type: Type, PredicateType: PredicateType,
		Subject: subjects(r.ID, r.ProofHash(), r.Title, r.Pin),
		Predicate: Predicate{
			Run: RunFacts{
				ID: r.ID, State: r.State, Outcome: r.Outcome, PrincipalDigest: principal,
				BeganAt: r.CreatedAt.UTC(), ChangedAt: r.UpdatedAt.UTC(), StepCount: r.StepCount,
			},
			Protocol: Protocol{
				ID: r.ChainID, Title: r.Title, Digest: Digest{r.Pin}, Revision: rec.Revision, Current: rec.Current, StoredRevision: rec.Stored,
			},
			Steps:    make([]Step, len(r.Proofs)),
			Open:     r.Step.Unsuccessful(),
			Verified: len(r.Proofs) == r.StepCount,
			MadeAt:   rec.At.UTC(), MadeBy: "kairos " + rec.Version,
		},
	}
	var beside []Disclosed
	for i, p := range r.Proofs {
		s.Predicate.Steps[i] = stepOf(*p, *r.Evidence[i], label(rec.Labels, i))
		d, err := disclosed(*p, *r.Evidence[i], rec.Challenges, i)
		if err != nil {
			return Statement{}, nil, err
		}
		if d.Challenge != nil || d.Evidence != nil {
			beside = append(beside, d)
		}
	}
	return s, beside, nil
}

func subjects(id run.ID, head, title, pin string) []Subject {
	return []Subject{
		{Name: "run " + string(id), Digest: Digest{head}},
		{Name: "protocol " + title, Digest: Digest{pin}},
	}
}

func principalDigest(r run.Run) (string, error) {
	b, err := json.Marshal(map[string]string{"run": string(r.ID), "principal": r.Principal})
	if err != nil {
		return "", fmt.Errorf("encode the principal of run %s: %w", r.ID, err)
	}
	return run.Digest(b)
}

func stepOf(p run.Proof, ev run.Evidence, label string) Step {
	s := Step{Label: label, Proof: p, Failed: ev.Failed, Approval: ev.Approval, Tries: ev.Tries, Permission: ev.Permission, EvidenceErased: ev.Erased()}
	for _, a := range ev.Answers {
		s.Answers = append(s.Answers, Answer{
			Input: a.InputID, Via: a.Via, Provenance: a.Provenance, Model: a.Model, StopReason: a.StopReason, Delay: ev.DelayOf(a.InputID),
		})
	}
	return s
}

func label(labels []string, i int) string {
	if i < len(labels) {
		return labels[i]
	}
	return ""
}

// disclosed returns those of a step's challenge and evidence that exist and match
// the proof.
func disclosed(p run.Proof, ev run.Evidence, challenges []json.RawMessage, i int) (Disclosed, error) {
	d := Disclosed{Step: i + 1}
	if i < len(challenges) && len(challenges[i]) > 0 && run.CheckDigest(i+1, run.LinkChallenge, challenges[i], p.ChallengeDigest) == nil {
		d.Challenge = challenges[i]
	}
	if ev.Erased() {
		return d, nil
	}
	b, err := json.Marshal(ev)
	if err != nil {
		return d, fmt.Errorf("encode the evidence of step %d: %w", i+1, err)
	}
	d.Evidence = b
	return d, nil
}

// maxSteps limits how many missing steps an untrusted statement can claim.
const maxSteps = 1 << 16

// missing lists the steps without a proof.
func (p Predicate) missing() []int {
	var out []int
	for i := len(p.Steps); i < min(p.Run.StepCount, maxSteps); i++ {
		out = append(out, i+1)
	}
	return out
}

// problems are contradictions within the statement; the first one first. The
// documents beside it are checked with the steps they belong to.
func (s Statement) problems(beside []Disclosed) []*Problem {
	p := s.Predicate
	var out []*Problem
	add := func(step int, link Link, format string, args ...any) {
		out = append(out, &Problem{Link: link, Step: step, Why: fmt.Sprintf(format, args...)})
	}
	if s.Type != Type || s.PredicateType != PredicateType {
		add(0, LinkStatement, "its type is %q with predicate %q, which is not a statement of a run", s.Type, s.PredicateType)
		return out
	}
	if n := p.Run.StepCount; n < len(p.Steps) || n > maxSteps {
		add(0, LinkStatement, "it says that the protocol has %d steps, and has proofs for %d", n, len(p.Steps))
	}
	documents := byStep(beside)
	previous := run.Genesis
	for i, step := range p.Steps {
		if err := step.Proof.Follows(previous, p.Run.ID, i+1); err != nil {
			out = append(out, problemOf(err))
		}
		if d, ok := documents[i+1]; ok {
			out = append(out, step.compare(d)...)
		}
		previous = step.Proof.Hash
	}
	for i, d := range beside {
		if d.Step < 1 || d.Step > len(p.Steps) || (i > 0 && d.Step <= beside[i-1].Step) {
			add(d.Step, LinkFile, "the file has evidence for a step without a proof, or has it twice")
		}
	}
	if !slices.Equal(s.Subject, subjects(p.Run.ID, previous, p.Protocol.Title, p.Protocol.Digest.SHA256)) {
		add(0, LinkStatement, "its subjects are not its run's last proof and its protocol")
	}
	if p.Verified != (len(p.Steps) == p.Run.StepCount) {
		add(0, LinkStatement, "it says verified: %t with %d of %d steps proved", p.Verified, len(p.Steps), p.Run.StepCount)
	}
	return out
}

func byStep(beside []Disclosed) map[int]Disclosed {
	out := make(map[int]Disclosed, len(beside))
	for _, d := range beside {
		out[d.Step] = d
	}
	return out
}

// compare checks the documents of a step against its proof, and what is said
// about the evidence against the evidence.
func (s Step) compare(d Disclosed) []*Problem {
	var out []*Problem
	if d.Challenge != nil {
		if err := run.CheckDigest(d.Step, run.LinkChallenge, d.Challenge, s.Proof.ChallengeDigest); err != nil {
			out = append(out, problemOf(err))
		}
	}
	if d.Evidence == nil {
		return out
	}
	if err := run.CheckDigest(d.Step, run.LinkEvidence, d.Evidence, s.Proof.EvidenceDigest); err != nil {
		return append(out, problemOf(err))
	}
	var ev run.Evidence
	if err := json.Unmarshal(d.Evidence, &ev); err != nil {
		return append(out, &Problem{Link: Link(run.LinkEvidence), Step: d.Step, Why: "it is not evidence: " + err.Error()})
	}
	if said := stepOf(s.Proof, ev, s.Label); !equalJSON(said, s) {
		out = append(out, &Problem{Link: Link(run.LinkEvidence), Step: d.Step, Why: "approval, permission, tries or answers differ from the statement"})
	}
	return out
}

func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
