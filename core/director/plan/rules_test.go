package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

type edits = []func(*plan.State)

func TestWhatIsDueFollowsTheOrderOfTheRules(t *testing.T) {
	open := func(c run.Call) func(*plan.State) { return func(s *plan.State) { s.Run.Step.Call = &c } }
	pending := &driver.Pending{Reason: "busy"}
	approved := func(age time.Duration) func(*plan.State) {
		return func(s *plan.State) {
			s.Run.Step.Approval = &run.Approval{Via: "form", Basis: run.BasisForm, Digest: digest, GrantedAt: now.Add(-age), ExpiresAt: now.Add(time.Hour - age), Provenance: driver.ClientAttested}
		}
	}
	withheld := func(s *plan.State) {
		s.Run.Step.Withheld = &run.WithheldVerdict{Proof: json.RawMessage(`{}`), Output: json.RawMessage(`{}`)}
	}
	judged := func(verdict string) func(*plan.State) {
		return func(s *plan.State) {
			s.Run.Step.Answers = []driver.Answer{{InputID: driver.KindJudge, Value: json.RawMessage(verdict)}}
		}
	}
	kept := func(version int) func(*plan.State) {
		return func(s *plan.State) { s.Run.Step.State.Version = version }
	}
	for name, tc := range map[string]struct {
		state edits
		want  string
	}{
		"every step is solved":                   {edits{func(s *plan.State) { s.Run.Step.Index = 3 }, open(run.Call{})}, "reply"},
		"a call is due":                          {edits{open(run.Call{Driver: "acts", Pending: pending, RetryAt: now})}, "ask again"},
		"a call is pending":                      {edits{open(run.Call{Driver: "acts", Pending: pending, RetryAt: now.Add(time.Minute)})}, "wait"},
		"nobody waits for a call":                {edits{open(run.Call{Driver: "acts", Pending: pending}), detached}, "wait"},
		"the outcome of a call is not known":     {edits{open(run.Call{Driver: "acts", Acts: true, RetryAt: now.Add(time.Minute)})}, "halt OUTCOME_UNKNOWN"},
		"a decline on the page was not reported": {edits{func(s *plan.State) { s.Run.Step.PendingDecline = "no" }, needsEvidence}, "apply told"},
		"the task is not worked out":             {edits{func(s *plan.State) { s.Opened = 0 }, needsEvidence}, "need the task"},
		"another version kept state":             {edits{kept(2), needsEvidence}, "apply restarted"},
		"the driver reads what was kept":         {edits{kept(1), needsEvidence}, "obtain evidence"},
		"evidence is open":                       {edits{needsEvidence}, "obtain evidence"},
		"evidence waits for its approval":        {edits{needsEvidence, gated}, "obtain approval"},
		"evidence is approved":                   {edits{needsEvidence, gated, approved(time.Minute)}, "obtain evidence"},
		"its approval does not count any more":   {edits{needsEvidence, gated, approved(time.Minute), func(s *plan.State) { s.Task.Approval.How = []string{driver.ByPage} }}, "apply restarted"},
		"an approval is demanded now":            {edits{needsEvidence, func(s *plan.State) { s.Task.Approval.Mode = driver.ApprovalUser }}, "apply restarted"},
		"its approval is too old":                {edits{needsEvidence, gated, approved(2 * time.Hour)}, "apply approval_lapsed"},
		"a judge is satisfied":                   {edits{withheld, judged(`{"satisfied":true,"reason":"ok"}`)}, "accept"},
		"a judge is not satisfied":               {edits{withheld, judged(`{"satisfied":false,"reason":"no"}`)}, "apply rejected"},
		"everything was obtained":                {nil, "judge"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kind(plan.Next(state(t, tc.state...))); got != tc.want {
				t.Errorf("Next = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAPersonIsOfferedOnceWhatDriversCouldDo(t *testing.T) {
	begins := func(s *plan.State) {
		s.Run.Revision, s.CanAccept = 0, true
		s.Chain.Space, s.Caller.Space = "mine", "mine"
	}
	asked := func(s *plan.State) {
		s.Run.Step.Question = &run.Question{Seq: 1, Via: "form", Input: driver.Input{ID: driver.KindAcceptance, Kind: driver.KindAcceptance}}
	}
	for name, tc := range map[string]struct {
		state edits
		want  string
	}{
		"when a run begins":              {edits{begins}, "need the offer"},
		"what was found":                 {edits{begins, func(s *plan.State) { s.Offer = &driver.Input{Kind: driver.KindAcceptance} }}, "obtain acceptance"},
		"there is nothing to offer":      {edits{begins, func(s *plan.State) { s.OfferOver = true }}, "judge"},
		"no acceptance can be stored":    {edits{begins, func(s *plan.State) { s.CanAccept = false }}, "judge"},
		"nobody waits":                   {edits{begins, detached}, "judge"},
		"the run is under way":           {edits{begins, func(s *plan.State) { s.Run.Revision = 2 }}, "judge"},
		"its input came just now":        {edits{begins, func(s *plan.State) { s.Run.Revision, s.OfferReady = 2, true }}, "need the offer"},
		"the question is open":           {edits{begins, asked}, "obtain acceptance"},
		"the agent did the step instead": {edits{begins, asked, report}, "apply route_closed form"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kind(plan.Next(state(t, tc.state...))); got != tc.want {
				t.Errorf("Next = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAClockThatWasSetBackEndsApprovals(t *testing.T) {
	approved := func(s *plan.State) { s.Run.Step.Approval = &run.Approval{Via: "form", GrantedAt: now} }
	later := func(s *plan.State) { s.Run.UpdatedAt = now.Add(time.Hour) }
	for name, tc := range map[string]struct {
		state edits
		want  string
	}{
		"set back":               {edits{approved, later}, "apply approval_lapsed"},
		"not set back":           {edits{approved}, "nothing"},
		"without an approval":    {edits{later}, "nothing"},
		"the run has ended":      {edits{approved, later, func(s *plan.State) { s.Run.State = run.Ended }}, "nothing"},
		"a link of the question": {edits{later, func(s *plan.State) { s.Run.Step.Question = &run.Question{Link: &run.ApprovalLink{}} }}, "apply approval_lapsed"},
	} {
		if got := kind(plan.Distrust(state(t, tc.state...))); got != tc.want {
			t.Errorf("%s: Distrust = %s, want %s", name, got, tc.want)
		}
	}
}
