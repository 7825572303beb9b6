package archive

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// RedactInput selects the values of a run to erase.
type RedactInput struct {
	Run    run.ID
	Step   int // 1-based; 0: all of a run that has ended
	Reason string
}

// RedactReply describes what was erased.
type RedactReply struct {
	RunID string `json:"run_id"`
	Steps []int  `json:"steps"` // with erased evidence
	// Quoting are steps whose texts quoted those steps and are erased, too.
	Quoting []int `json:"quoting,omitempty"`
	// Verified reports that the proof chain is still valid and every step has a
	// proof.
	Verified bool `json:"verified"`
	// Remains says why erased values may still be readable in the files of the
	// database; empty: they are not.
	Remains string `json:"remains,omitempty"`
}

// Redact erases evidence, answers, outputs and quotations of them from a run, its
// events and its recorded replies. The digests stay, so the proof chain still
// verifies. In a live run only a solved step can be erased, and only if no later
// step needs its result.
func (a *Archive) Redact(ctx context.Context, c access.Caller, in RedactInput) (_ RedactReply, err error) {
	doing, err := a.opt.Audit.Begin(ctx, c, audit.Act{Action: audit.RunRedact, Object: objectOf(in.Run), Details: stepOf(in.Step)})
	if err != nil {
		return RedactReply{}, err
	}
	defer doing.End(&err)
	claim := a.runs.Claim()
	defer claim.Release()
	return runs.Again(func() (RedactReply, error) {
		if err := claim.Take(ctx, in.Run); err != nil {
			return RedactReply{}, err
		}
		return a.redact(ctx, c, in)
	})
}

func (a *Archive) redact(ctx context.Context, c access.Caller, in RedactInput) (RedactReply, error) {
	if a.store.Eraser == nil {
		return RedactReply{}, fault.New(fault.StoreFailed, "the store of the runs cannot erase values")
	}
	t, err := a.runs.Oversee(ctx, c, in.Run)
	if err != nil {
		return RedactReply{}, err
	}
	redaction, err := redactionOf(t, in.Step)
	if err != nil {
		return RedactReply{}, err
	}
	reason := plain.Clip(cmp.Or(in.Reason, "no reason was given"), 2000)
	if err := t.Append(run.Event{Kind: run.Redacted, Redaction: &redaction, Reason: reason}); err != nil {
		return RedactReply{}, err
	}
	erase := func(ev run.Event) run.Event { return redaction.Redacted(ev, t.Run.UpdatedAt) }
	if err := a.store.Eraser.EraseRun(ctx, runs.Save{Run: t.Run, Events: t.Events}, erase); err != nil {
		return RedactReply{}, fmt.Errorf("erase values of run %s: %w", in.Run, err)
	}
	var verdict api.AttestReply
	t.Verdict(&verdict)
	reply := RedactReply{RunID: string(in.Run), Steps: redaction.Steps, Quoting: redaction.Quoting, Verified: verdict.Verified}
	if err := a.store.Eraser.Scrub(ctx); err != nil {
		reply.Remains = err.Error()
	}
	return reply, nil
}

// objectOf is the run as the audit log names it. Anything else that callers give
// is not written.
func objectOf(id run.ID) string {
	if !uuidForm.MatchString(string(id)) {
		return ""
	}
	return string(id)
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F-]{36}$`)

// stepOf is a step as the audit log names it; nil: no step is meant.
func stepOf(step int) map[string]string {
	if step == 0 {
		return nil
	}
	return map[string]string{"step": strconv.Itoa(step)}
}

// redactionOf returns what has to be erased for a step, or for 0 of the whole run.
func redactionOf(t *runs.Change, step int) (run.Redaction, error) {
	solved := len(t.Run.Proofs)
	switch {
	case step == 0 && t.Run.State.Live():
		return run.Redaction{}, fault.New(fault.InvalidArgument, "run %s is still open: name a solved step to erase, or end the run first", t.Run.ID).
			WithNext("give --step; or close the run with kairos_attest, or with `kairos runs end %s`", t.Run.ID)
	case step == 0:
		all := run.Redaction{Whole: true, Steps: []int{}}
		for i := range solved {
			all.Steps = append(all.Steps, i+1)
		}
		return all, nil
	case step < 0 || step > solved:
		return run.Redaction{}, fault.New(fault.InvalidArgument, "step %d of run %s has no evidence: %d of %d steps are solved", step, t.Run.ID, solved, t.Run.StepCount)
	}
	quoting := quoting(t, step)
	if t.Run.State.Live() {
		if at := slices.IndexFunc(quoting, func(n int) bool { return n > solved }); at >= 0 {
			return run.Redaction{}, fault.New(fault.InvalidArgument, "step %d needs the result of step %d and is not solved yet", quoting[at], step).
				WithNext("solve step %d, or end the run, then erase", quoting[at])
		}
	}
	return run.Redaction{Steps: []int{step}, Quoting: quoting}, nil
}

// quoting lists the later steps whose challenges or texts hold results of the step.
func quoting(t *runs.Change, step int) []int {
	var out []int
	name := t.Chain.Steps[step-1].Name
	for i := step; i < len(t.Chain.Steps); i++ {
		refs := append(protocol.References(t.Chain.Steps[i].Challenge), t.Chain.TextReferences(i)...)
		if slices.ContainsFunc(refs, func(r protocol.Reference) bool {
			return r.Source == protocol.FromSteps && r.Step == name
		}) {
			out = append(out, i+1)
		}
	}
	return out
}
