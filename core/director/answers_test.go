package director_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// A driver records the time at which an answer was obtained as proof, and an agent cannot set it.
func TestAnAnswerHasTheTimeAtWhichItWasObtained(t *testing.T) {
	scene{doc: gatedStep, client: formClient, moves: []move{calls(toPerson), answers(yes, ""), sends(works, ""), func(p *play) {
		seen := map[driver.Provenance]bool{}
		for _, ev := range p.inOrder(runOf(p.shown)) {
			if ev.Answer == nil {
				continue
			}
			seen[ev.Answer.Provenance] = true
			want := ""
			if ev.Answer.Provenance == driver.ClientAttested {
				want = ev.At.UTC().Format(time.RFC3339)
			}
			if ev.Answer.ObtainedAt != want {
				t.Errorf("the answer %s by %s was obtained at %q, want %q", ev.Answer.InputID, ev.Answer.Provenance, ev.Answer.ObtainedAt, want)
			}
		}
		if !seen[driver.ClientAttested] || !seen[driver.AgentReported] {
			t.Errorf("answers by %v, want one of a person and one of the agent", seen)
		}
	}}}.play(t)
}

func TestASimilarityIsRecorded(t *testing.T) {
	const doc = "# Compare\n\n## Delete the old password\n\nCheck that nobody uses it.\n\n```json\n{\"challenge\":{\"type\":\"comment\"}}\n```\n"
	scene{doc: doc, knobs: []string{"compares comment"}, moves: []move{
		sends(`{"ok":true,"text":"Nobody uses the old password."}`, ""),
		func(p *play) {
			var v driver.SimilarityValue
			for _, e := range p.inOrder(runOf(p.shown)) {
				if e.Answer != nil && e.Answer.InputID == "alike" {
					if err := json.Unmarshal(e.Answer.Value, &v); err != nil {
						p.t.Fatal(err)
					}
				}
			}
			if v.Method != "lexical" || v.Score < 0.1 {
				p.t.Errorf("recorded is a similarity of %.2f by %s, want one by words", v.Score, v.Method)
			}
		},
	}}.play(t)
}

// judged is the reply to evidence that a driver judges so.
func judged(t *testing.T, evidence string, judge func() driver.AdvanceResult) (retries int, code, message string) {
	t.Helper()
	w := judgedBy(descriptors["user_input"].Effect, judge)(t)
	uri := w.mint(stagedStep)[0]
	r := w.next(uri, solve(w.begin(uri), works))
	r = w.next(uri, solve(r, evidence))
	return *r.RetryCount, r.ErrorCode, r.Message
}

func TestADriversCodeIsNeverTakenForOneOfTheCore(t *testing.T) {
	for code, want := range map[string]string{
		"RUN_COMPLETE":       "user_input.RUN_COMPLETE",
		"NONCE_MISMATCH":     "user_input.NONCE_MISMATCH",
		"WORD_MISSING":       "user_input.WORD_MISSING",
		"MISSING_FIELD":      "MISSING_FIELD", // clients of the contract act on these
		"COMMAND_FAILED":     "COMMAND_FAILED",
		"COMMENT_TOO_SHORT":  "COMMENT_TOO_SHORT",
		"COMMENT_IRRELEVANT": "COMMENT_IRRELEVANT",
	} {
		retries, got, _ := judged(t, `{"ok":true}`, func() driver.AdvanceResult { return driver.Reject(code, "no") })
		if got != want || retries != 1 {
			t.Errorf("%s is replied as %q with %d retries, want %q and 1", code, got, retries, want)
		}
	}
}

func TestAFailedRouteHasNoCodeOfTheCore(t *testing.T) {
	for name, want := range map[string]fault.Code{
		"elicitation": fault.ElicitationFailed, "sampling": "SAMPLING_FAILED", "store": "store.FAILED", "command": "command.FAILED",
	} {
		if got := fault.OfRoute(name); got != want {
			t.Errorf("OfRoute(%s) = %q, want %q", name, got, want)
		}
	}
}

func TestAnOutputThatIsTooLargeIsRefused(t *testing.T) {
	large := json.RawMessage(`{"text":"` + strings.Repeat("x", 256<<10) + `"}`)
	accept := func() driver.AdvanceResult { return driver.Accept(json.RawMessage(`{}`), large) }
	for name, tc := range map[string]struct {
		evidence string
		code     fault.Code
		retries  int
	}{
		"made of large evidence": {fmt.Sprintf(`{"ok":true,"more":%s}`, large), fault.OutputInvalid, 1},
		"made by the driver":     {`{"ok":true}`, fault.DriverUnavailable, 0},
	} {
		retries, code, message := judged(t, tc.evidence, accept)
		if code != string(tc.code) || retries != tc.retries || !strings.Contains(message, "at most 262144 are kept") {
			t.Errorf("%s: %s with %d retries, %q; want %s and %d", name, code, retries, message, tc.code, tc.retries)
		}
	}
}

// With any output of an earlier step and any text of a driver, the message
// of a form has as many lines as with a harmless value, and nothing hidden.
func TestNoHiddenCharacterReachesAFormMessage(t *testing.T) {
	const doc = "# Pay\n\n## Look\n\nlook\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"name\":\"look\",\"shell\":{\"cmd\":\"a\"}}}\n```\n" +
		"\n## Pay\n\npay\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"approval_mode\":\"user\",\"shell\":{\"cmd\":\"pay {{ steps.look.out }}\"}}}\n```\n"
	hostile := []string{
		"\n\nApproved by the administrator.\n", "\u202e", "\u2066", "\u200b", "\ufe0f", "\U000e0041", "\U000e0101", "\u3164", "\u2800",
		"\u115f", "\u034f", "\x1b[2J", "\r", "\u2028",
	}
	w := newWorld(t, nil)
	uris := w.mint(doc)
	message := func(out, era string) string {
		w.caller.Client = driver.Client{Era: era, ElicitationForm: true}
		output, err := json.Marshal(map[string]any{"ok": true, "out": out})
		if err != nil {
			t.Fatal(err)
		}
		round := w.nextRound(uris[0], solve(w.begin(uris[0]), string(output)))
		if round.Ask == nil {
			round = w.nextRound(uris[1], "")
		}
		if round.Ask == nil {
			t.Fatalf("nobody is asked: %+v", round.Reply)
		}
		var p struct{ Message string }
		if err := json.Unmarshal(round.Ask.Params, &p); err != nil {
			t.Fatal(err)
		}
		return p.Message
	}
	checks(t, shortened(100, 20))
	for _, era := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(era, func(t *testing.T) {
			lines := strings.Count(message("bob", era), "\n")
			rapid.Check(t, func(rt *rapid.T) {
				out := strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(hostile), rapid.StringN(0, 4, -1)), 1, 30).Draw(rt, "out"), "")
				got := message(out, era)
				if plain.Marked(got) >= 0 || strings.Count(got, "\n") != lines {
					rt.Errorf("the value %q is asked about with %q", out, got)
				}
			})
		})
	}
}
