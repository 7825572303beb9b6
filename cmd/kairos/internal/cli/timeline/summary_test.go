package timeline_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/timeline"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func proved(step int, by, files driver.Provenance) archive.Moment {
	return archive.Moment{Step: step, What: "accepted", Provenance: by, Files: files, ProofHash: "0123"}
}

// The summary separates the files that KAIROS saw from the report of the agent:
// neither counts for the other.
func TestTheSummarySaysWhoVouchesForWhat(t *testing.T) {
	line := archive.Timeline{
		Run:      run.Summary{ID: "01a2097a-3325-7056-9631-19bc21ef0e4e", Title: "Release", StepCount: 6, StepIndex: 7, State: run.Complete},
		Verified: true, Worth: "4 of 6 steps rest on the agent's word, 1 answered by a person, 1 seen by KAIROS; files of 2 steps seen by KAIROS",
		Moments: []archive.Moment{
			{Step: 1, What: "rejected", Provenance: driver.AgentReported},
			proved(1, driver.AgentReported, ""),
			proved(2, driver.AgentReported, driver.ServerObserved),
			proved(3, driver.AgentReported, driver.ServerObserved),
			proved(4, driver.AgentReported, driver.AgentReported),
			proved(5, driver.ClientAttested, ""),
			proved(6, driver.ServerObserved, driver.ServerObserved),
		},
	}
	var b strings.Builder
	if err := timeline.Summary(&b, line, timeline.Played{Took: 61 * time.Second, Kept: true}); err != nil {
		t.Fatal(err)
	}
	got, _, _ := strings.Cut(b.String(), "run 01a2")
	want := `
verified: 4 of 6 steps rest on the agent's word, 1 answered by a person, 1 seen by KAIROS; files of 2 steps seen by KAIROS
Release: 6 of 6 steps in 1m1s
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Summary (-want +got):\n%s", diff)
	}
}

// It fits on a screen, whatever happened in the run.
func TestTheSummaryIsShort(t *testing.T) {
	line := archive.Timeline{Run: run.Summary{ID: "01a2097a-3325-7056-9631-19bc21ef0e4e", Title: "Release", StepCount: 50, State: run.Open}, Problem: "49 of 50 steps have no accepted proof."}
	for step := range 50 {
		by := []driver.Provenance{driver.ServerObserved, driver.ClientAttested, driver.LinkHolder, driver.ModelGenerated, driver.AgentReported}
		line.Moments = append(line.Moments, proved(step+1, by[step%5], by[step/5%5]))
	}
	var b strings.Builder
	if err := timeline.Summary(&b, line, timeline.Played{Took: time.Hour, Kept: true, Resume: "--play"}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(b.String(), "\n"); lines > 10 || lines < 6 {
		t.Errorf("Summary has %d lines, want 6 to 10:\n%s", lines, b.String())
	}
}

// Continuing a run does not help where somebody has to say what happened.
func TestTheSummaryNamesWhatDecidesAnUnknownOutcome(t *testing.T) {
	line := archive.Timeline{Run: run.Summary{ID: "01a2097a-3325-7056-9631-19bc21ef0e4e", Title: "Book", StepCount: 1, StepIndex: 1, State: run.Waiting}, Problem: "1 of 1 step has no accepted proof."}
	for what, decides := range map[string]bool{"outcome_unknown": true, "waiting": false} {
		line.Moments = []archive.Moment{{Step: 1, What: "called"}, {Step: 1, What: what}}
		var b strings.Builder
		if err := timeline.Summary(&b, line, timeline.Played{Kept: true, Resume: "--play"}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "kairos runs decide 21ef0e4e --did-not-happen"); got != decides || strings.Contains(b.String(), "runs resume") == decides {
			t.Errorf("%s: the summary says\n%s", what, b.String())
		}
	}
}

// A driver's verdict leaves out the words of a tool that failed, because agents read it. A
// person is shown them whole.
func TestAPersonIsShownWhyAToolFailed(t *testing.T) {
	why := strings.Repeat("the room is taken, ", 20) + "says the calendar"
	line := archive.Timeline{
		Run: run.Summary{ID: "01a2097a-3325-7056-9631-19bc21ef0e4e", Title: "Visit", StepCount: 1, State: run.Open}, Problem: "1 of 1 steps has no accepted proof.",
		Moments: []archive.Moment{
			{Step: 1, What: "supplied", Via: "tools", Provenance: driver.ServerObserved, Answer: []byte(`{"success":false,"result":"` + why + `"}`)},
			{Step: 1, What: "rejected", Verdict: "The tool create_event reported a failure, in words that only people are shown"},
		},
	}
	var summary, whole strings.Builder
	if err := timeline.Summary(&summary, line, timeline.Played{Took: time.Second, Kept: true}); err != nil {
		t.Fatal(err)
	}
	timeline.Timeline(&output.Printer{W: &whole}, line)
	for name, got := range map[string]string{"kairos run": summary.String(), "kairos runs show": whole.String()} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), why) {
			t.Errorf("%s does not say why it failed:\n%s", name, got)
		}
	}
	line.Moments = append(line.Moments, proved(1, driver.ServerObserved, ""))
	summary.Reset()
	if err := timeline.Summary(&summary, line, timeline.Played{Took: time.Second}); err != nil || strings.Contains(summary.String(), "taken") {
		t.Errorf("what failed and was done later is still said: %v\n%s", err, &summary)
	}
}
