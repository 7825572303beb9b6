package present_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const first, second = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"

// view is of a run of two steps, of which the first are solved. The second step
// refers to the result of the first.
func view(t *testing.T, solved int) present.View {
	t.Helper()
	chains, found := protocol.Parse([]byte("# Ship\n\nNever on Fridays.\n\n## 3-Build\n\nCompile it.\n\n## Tell\n\nSay that {{steps.build.version}} is out.\n"))
	if len(chains) != 1 {
		t.Fatalf("Parse = %v, %v", chains, found)
	}
	chain := chains[0]
	chain.Steps[0].UUID, chain.Steps[1].UUID = first, second
	r := run.Run{ID: "run-1", State: run.Open, StepCount: 2, Step: run.Step{Index: 1 + solved, Nonce: "nonce"}}
	for i := range solved {
		r.Proofs = append(r.Proofs, &run.Proof{
			Step: i + 1, Hash: "hash", Provenance: driver.AgentReported, Driver: run.DriverRef{Name: "core"}, Via: run.DriverRef{Name: "core"},
		})
		r.Evidence = append(r.Evidence, &run.Evidence{Output: json.RawMessage(`{"version":"1.2"}`)})
	}
	return present.View{Run: r, Chain: chain}
}

func TestReplyShowsTheOpenStep(t *testing.T) {
	v := view(t, 0)
	v.Note = "Resumed"
	got := v.Reply(v.Chain.Steps[0], driver.AgentChallenge{Type: "comment", Description: "Report it."})
	if !got.MustObey || got.CurrentStep.URI != protocol.URI(first) || got.StepIndex != 1 || got.StepCount != 2 || got.RunID != "run-1" {
		t.Errorf("Reply = %+v, want step 1 of 2 of the run, which must be obeyed", got)
	}
	if want := "## 3-Build\n\n> Before the first step, the protocol says:\n>\n> Never on Fridays.\n\nCompile it."; got.CurrentStep.Content != want {
		t.Errorf("content = %q, want the heading as written and the introduction", got.CurrentStep.Content)
	}
	want := api.Challenge{Type: "comment", Description: "Report it.", Nonce: "nonce", ProofHash: run.Genesis}
	if diff := cmp.Diff(want, got.Challenge); diff != "" {
		t.Errorf("challenge (-want +got):\n%s", diff)
	}
	if got.Message != "Resumed" || len(got.Solved) > 0 || got.ProofHash != "" {
		t.Errorf("Reply = %+v, want the note and nothing solved", got)
	}
}

func TestReplySaysWhatTheCallSolvedAndFillsTheNextStep(t *testing.T) {
	v := view(t, 1)
	v.Run.Proofs[0].Provenance = driver.ServerObserved
	v.Solved = []api.Solved{present.Solved(v.Run, v.Chain, 0)}
	got := v.Reply(v.Chain.Steps[1], driver.AgentChallenge{})
	if got.ProofHash != "hash" || !strings.HasPrefix(got.Message, "Step 1 is solved (server-observed).") || got.Solved[0].Label != "3-Build" {
		t.Errorf("Reply = %+v, want that step 1 is solved and its proof", got)
	}
	if !strings.Contains(got.CurrentStep.Content, `"1.2"</data> is out.`) {
		t.Errorf("content = %q, want the result of step 1 in it", got.CurrentStep.Content)
	}
}

// An agent knows what it has just reported, and pays for every byte that it reads.
func TestWhatTheAgentReportedIsNamedInTheMessageOnly(t *testing.T) {
	v := view(t, 2)
	v.Solved = []api.Solved{present.Solved(v.Run, v.Chain, 0), present.Solved(v.Run, v.Chain, 1)}
	v.Solved[1].Verdict = run.NotRequired
	got := v.Reply(v.Chain.Steps[1], driver.AgentChallenge{})
	if len(got.Solved) != 1 || got.Solved[0].StepIndex != 2 {
		t.Errorf("solved = %+v, want the step that failed: more is to be said of it", got.Solved)
	}
	if got.ProofHash != "hash" || !strings.HasPrefix(got.Message, "Step 1 is solved (agent-reported).") {
		t.Errorf("Reply = %+v, want that step 1 is solved", got)
	}
}

func TestCallsNameTheOpenStepOfTheRun(t *testing.T) {
	for solved, uri := range []string{protocol.URI(first), protocol.URI(second), protocol.URI(second)} {
		var got struct {
			URI      string            `json:"uri"`
			RunID    string            `json:"run_id"`
			Solution map[string]string `json:"solution"`
		}
		call := view(t, solved).LeaveToServer("comment")
		if err := json.Unmarshal(call.Arguments, &got); err != nil {
			t.Fatal(err)
		}
		if call.Tool != api.ToolNext || got.URI != uri || got.RunID != "run-1" {
			t.Errorf("after %d solved steps the call is %s, want kairos_next with %s", solved, call.Arguments, uri)
		}
		if diff := cmp.Diff(map[string]string{"type": "comment", "nonce": "nonce"}, got.Solution); diff != "" {
			t.Errorf("solution (-want +got):\n%s", diff)
		}
	}
}

func TestAnAgentThatFailedOftenEnoughMayChoose(t *testing.T) {
	v := view(t, 0)
	r := v.Reply(v.Chain.Steps[0], driver.AgentChallenge{})
	r.NextCall = v.LeaveToServer("comment")
	if got := present.WaysOut(r); got.MustObey || got.NextCall != nil || !strings.Contains(got.NextAction, "kairos_update") {
		t.Errorf("WaysOut = %+v, want a choice and no call that must be made", got)
	}
}
