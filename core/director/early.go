package director

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// maxEarly bounds what is kept of work that came too early, in bytes.
const maxEarly = 64 << 10

// tooEarly records that work was submitted for a step that nobody has approved.
// The same submission again is not recorded again.
func (ap *approvals) tooEarly() error {
	s := ap.t.solution
	if !s.supplied() || ap.t.Run.Step.Early != nil && ap.t.Run.Step.Early.Digest == s.payload {
		return nil
	}
	ev := run.Event{Kind: run.Premature, Input: driver.KindEvidence, Digest: s.payload}
	if work := orRaw(s.params, s.Evidence); len(work) <= maxEarly {
		ev.Answer = &driver.Answer{InputID: driver.KindEvidence, Value: work, Provenance: driver.AgentReported}
	}
	// The walk through the tree belongs to what happens next.
	walk := ap.t.decided
	ap.t.decided = nil
	err := ap.t.apply(ev)
	ap.t.decided = walk
	return err
}

func orRaw(raw, other json.RawMessage) json.RawMessage {
	if says(raw) {
		return raw
	}
	return other
}

// gatedInput is the input that the approval stands in front of.
func (ap *approvals) gatedInput() driver.Input {
	for _, in := range ap.t.Run.Step.Inputs {
		switch in.Kind {
		case driver.KindSimilarity, driver.KindJudge, driver.KindFiles:
		default:
			return in
		}
	}
	return driver.Input{}
}

func (ap *approvals) earlyTimes() int {
	if ap.t.Run.Step.Early == nil {
		return 0
	}
	return ap.t.Run.Step.Early.Times
}

// doneBefore tells a person whether anything may have been done before they
// approve.
func (ap *approvals) doneBefore() string {
	early := ap.t.Run.Step.Early
	if early == nil {
		return "Nothing is done before you approve."
	}
	return fmt.Sprintf("Work for this step was submitted before approval, at %s, so it may have been done already. It is not counted: only what is done after you approve is.",
		early.First.UTC().Format(time.RFC3339))
}
