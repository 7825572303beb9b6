package director_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

// Clients send evidence in forms that only the schema of its challenge tells apart from text.
func TestEvidenceIsReadByTheSchemaOfItsChallenge(t *testing.T) {
	asText := func(value string) string {
		b, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, tc := range map[string]struct {
		evidence string // of the object named like the type
		whole    bool   // the solution is a text
		answer   string
	}{
		"as it is":             {evidence: `{"ok":true,"note":"true"}`, answer: `{"ok":true,"note":"true"}`},
		"a boolean as text":    {evidence: `{"ok":"true","note":"true"}`, answer: `{"ok":true,"note":"true"}`},
		"an object as text":    {evidence: asText(`{"ok":"true"}`), answer: `{"ok":true}`},
		"the solution as text": {evidence: `{"ok":"true","note":null}`, whole: true, answer: `{"ok":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.drivers.set("has a form shell", true)
			uris := w.mint(threeSteps)
			shown := w.begin(uris[0])
			sent := solve(shown, tc.evidence)
			if tc.whole {
				sent = asText(sent)
			}
			r := w.next(uris[0], sent)
			w.code(r, "")
			w.at(r, uris[1])
			m := w.moment(r, "supplied")
			if string(m.Answer) != tc.answer {
				t.Errorf("the answer is %s, want %s", m.Answer, tc.answer)
			}
			if asItIs := tc.answer == tc.evidence; asItIs && m.Sent != nil || !asItIs && string(m.Sent) != sent {
				t.Errorf("recorded as sent is %s, want %s", m.Sent, sent)
			}
			// The same bytes are the same submission.
			if again := w.next(uris[0], sent); again.ErrorCode != "" || again.CurrentStep.URI != uris[1] {
				t.Errorf("the repeated call is answered by %s %s", again.ErrorCode, again.Message)
			}
		})
	}
}

func TestTextInASubmissionIsLimited(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	shown := w.begin(uris[0])
	text, err := json.Marshal("[" + strings.Repeat("1,", 200_000) + "1]")
	if err != nil {
		t.Fatal(err)
	}
	sent := strings.Replace(solve(shown, string(text)), `"shell":`, `"evidence":`, 1)
	_, err = w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0], Solution: json.RawMessage(sent)})
	if fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "100000 values") {
		t.Errorf("200,000 values as text: %v, want an error that names the limit", err)
	}
}
