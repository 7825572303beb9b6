package statement

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Link is a part of a statement that can break: one of run.Link, or one of these.
type Link string

// The links around the steps.
const (
	// LinkFile: the file is not in canonical form.
	LinkFile Link = "file"
	// LinkSignature: the signature is not of the key over the statement.
	LinkSignature Link = "signature"
	// LinkStatement: the signed text is not a statement of a run, or contradicts itself.
	LinkStatement Link = "statement"
)

// Problem is a broken link.
type Problem struct {
	Link Link   `json:"link"`
	Step int    `json:"step,omitempty"` // 0: none
	Why  string `json:"why"`
}

func (p *Problem) Error() string {
	if p.Step > 0 {
		return fmt.Sprintf("step %d, %s: %s", p.Step, p.Link, p.Why)
	}
	return fmt.Sprintf("%s: %s", p.Link, p.Why)
}

func problemOf(err error) *Problem {
	var b *run.Broken
	if errors.As(err, &b) {
		return &Problem{Link: Link(b.Link), Step: b.Step, Why: b.Why}
	}
	return &Problem{Link: LinkStatement, Why: err.Error()}
}

// Report is what a check found.
type Report struct {
	// Whole: signature, chain and digests hold.
	Whole bool `json:"whole"`
	// Trusted: checked with a key that was given. Otherwise only with the one in
	// the file, which anybody can put there with a statement of their own.
	Trusted bool   `json:"trusted"`
	KeyID   string `json:"key_id,omitempty"`
	// The rest is what the statement says; empty where it cannot be read.
	Run      RunFacts      `json:"run"`
	Protocol Protocol      `json:"protocol"`
	Verified bool          `json:"verified"`
	Missing  []int         `json:"missing_steps"`
	Steps    []CheckedStep `json:"steps"`
	// Open is what was tried without success at the step that is not solved.
	Open *run.Tries `json:"open_tries,omitempty"`
	// Worth says who vouches for the steps. It is empty for a statement without steps.
	Worth  string `json:"worth,omitempty"`
	MadeAt string `json:"made_at,omitempty"`
	MadeBy string `json:"made_by,omitempty"`
	// Problems are the broken links, the first one first.
	Problems []*Problem `json:"problems"`
}

// CheckedStep is what the statement says of a step, and what was there to check.
type CheckedStep struct {
	Step       int               `json:"step"`
	Label      string            `json:"label"`
	Provenance driver.Provenance `json:"provenance"`
	// Failed: the evidence does not satisfy the challenge, which did not require it.
	Failed     bool            `json:"failed,omitempty"`
	Driver     run.DriverRef   `json:"driver"`
	Via        run.DriverRef   `json:"via"`
	Approval   *run.Approval   `json:"approval,omitempty"`
	Permission *run.Permission `json:"permission,omitempty"`
	Tries      *run.Tries      `json:"tries,omitempty"` // without success, before
	Answers    []Answer        `json:"answers,omitempty"`
	ProofHash  string          `json:"proof_hash"`
	Challenge  Disclosure      `json:"challenge"`
	Evidence   Disclosure      `json:"evidence"`
}

// Disclosure says whether a document could be compared with its digest.
type Disclosure string

// The disclosures.
const (
	// Compared: it is in the file and is the one that the proof is for.
	Compared Disclosure = "compared"
	// Differs: it is in the file and is another one.
	Differs Disclosure = "differs"
	// LeftOut: it is not in the file.
	LeftOut Disclosure = "left out"
	// Erased: the run itself does not hold it any more.
	Erased Disclosure = "erased"
)

// Verify checks a file, with a key or, if that is the zero value, with the one
// in the file. The error is the first *Problem, and the report is filled in as
// far as the file can be read.
func Verify(ctx context.Context, data []byte, trusted PublicKey) (Report, error) {
	r := Report{Trusted: !trusted.none(), Missing: []int{}, Steps: []CheckedStep{}, Problems: []*Problem{}}
	f, err := parse(data)
	if err != nil {
		return r.fail(&Problem{Link: LinkFile, Why: err.Error()})
	}
	inside, err := ParsePublic(f.PublicKey)
	if err != nil || inside.String() != f.PublicKey {
		return r.fail(&Problem{Link: LinkFile, Why: "public_key is not an ed25519 key as base64"})
	}
	key := inside
	if r.Trusted {
		key = trusted
	}
	r.KeyID = inside.ID()
	payload, err := f.open(ctx, key)
	switch {
	case err != nil:
		r.Problems = append(r.Problems, &Problem{Link: LinkSignature, Why: err.Error()})
		// The content may still show what was changed.
		payload, err = f.payload()
	case inside.ID() != key.ID():
		r.Problems = append(r.Problems, &Problem{Link: LinkSignature, Why: "public_key of the file is another than the one that signed"})
	}
	if err != nil {
		return r.fail()
	}
	s, err := readStatement(payload)
	if err != nil {
		return r.fail(&Problem{Link: LinkStatement, Why: err.Error()})
	}
	problems := s.problems(f.Evidence)
	r.fill(s, f.Evidence, problems)
	return r.fail(problems...)
}

// fail adds problems and returns the report with the first one it has.
func (r Report) fail(more ...*Problem) (Report, error) {
	r.Problems = append(r.Problems, more...)
	if len(r.Problems) == 0 {
		r.Whole = true
		return r, nil
	}
	r.Verified = false
	return r, r.Problems[0]
}

// readStatement reads what is signed. It too has one form only.
func readStatement(payload []byte) (Statement, error) {
	var s Statement
	if err := decodeStrictly(payload, &s); err != nil {
		return s, err
	}
	again, err := canonical(s)
	if err != nil {
		return s, err
	}
	if !bytes.Equal(payload, again) {
		return s, errors.New("it is not in canonical form")
	}
	return s, nil
}

// fill fills in what the statement says.
func (r *Report) fill(s Statement, beside []Disclosed, problems []*Problem) {
	p := s.Predicate
	r.Run, r.Protocol, r.Verified, r.MadeBy = p.Run, p.Protocol, p.Verified, p.MadeBy
	r.MadeAt = p.MadeAt.Format("2006-01-02T15:04:05Z07:00")
	r.Open = p.Open
	r.Missing = append(r.Missing, p.missing()...)
	documents, broken := byStep(beside), make(map[run.Broken]bool)
	for _, p := range problems {
		broken[run.Broken{Step: p.Step, Link: run.Link(p.Link)}] = true
	}
	vouchers := make([]run.Voucher, len(p.Steps))
	for i, step := range p.Steps {
		vouchers[i] = step.voucher()
		c := CheckedStep{
			Step: i + 1, Label: step.Label, Provenance: step.Proof.Provenance, Failed: step.Failed, Driver: step.Proof.Driver, Via: step.Proof.Via,
			Approval: step.Approval, Tries: step.Tries, Permission: step.Permission, Answers: step.Answers, ProofHash: step.Proof.Hash, Challenge: LeftOut, Evidence: LeftOut,
		}
		if step.EvidenceErased {
			c.Evidence = Erased
		}
		if documents[i+1].Challenge != nil {
			c.Challenge = disclosure(broken, i+1, run.LinkChallenge)
		}
		if documents[i+1].Evidence != nil {
			c.Evidence = disclosure(broken, i+1, run.LinkEvidence)
		}
		r.Steps = append(r.Steps, c)
	}
	r.Worth = run.Worth(p.Run.StepCount, vouchers)
}

func (s Step) voucher() run.Voucher {
	ev := run.Evidence{Approval: s.Approval, Failed: s.Failed, Delays: map[string]run.Delay{}}
	for _, a := range s.Answers {
		ev.Answers = append(ev.Answers, driver.Answer{InputID: a.Input, Via: a.Via, Provenance: a.Provenance})
		if a.Delay != nil {
			ev.Delays[a.Input] = *a.Delay
		}
	}
	return s.Proof.Voucher(ev)
}

func disclosure(broken map[run.Broken]bool, step int, l run.Link) Disclosure {
	if broken[run.Broken{Step: step, Link: l}] {
		return Differs
	}
	return Compared
}
