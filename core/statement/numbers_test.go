package statement_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/statement"
)

// Statements keep every number of the evidence and verify. A changed number does
// not verify, and redaction changes neither.
func TestNumbersOfEvidenceAreStatedAsTheyAre(t *testing.T) {
	k := statement.NewKey()
	digits := rapid.StringMatching(`[1-9][0-9]{17,40}[1-9]`)
	rapid.Check(t, func(rt *rapid.T) {
		number := digits.Draw(rt, "number")
		neighbour := number[:len(number)-1] + string('0'+(number[len(number)-1]-'0'+1)%10)
		numbered := func(n string) *run.Evidence {
			return &run.Evidence{Salt: "salt", Proof: json.RawMessage(`{"id":` + n + `,"share":0.` + n + `}`), Output: json.RawMessage(`[-` + n + `]`)}
		}
		rec := record(t, 1, 0)
		challenge := json.RawMessage(`{"type":"mcp","mcp":{"tool_name":"pay","arguments":{"amount":` + number + `}}}`)
		rec.Challenges = []json.RawMessage{challenge}

		rec.Run.Evidence = []*run.Evidence{numbered(number)}
		rec.Run.Proofs = []*run.Proof{seal(t, rec.Run, 0, challenge, rec.Run.Evidence[0])}

		data := signed(t, k, rec)
		if link := broken(t, data, k.Public()); link != "" {
			rt.Fatalf("%s is broken in %s", link, data)
		}
		if n := bytes.Count(data, []byte(number)); n != 4 {
			rt.Fatalf("the number stands %d times in %s, want 4", n, data)
		}
		other := bytes.Replace(data, []byte(`"id":`+number), []byte(`"id":`+neighbour), 1)
		if link := broken(t, other, k.Public()); link == "" || bytes.Equal(other, data) {
			rt.Fatalf("with %s for %s nothing is broken", neighbour, number)
		}
		changed := rec
		changed.Run.Evidence = []*run.Evidence{numbered(neighbour)}
		var wrong *run.Broken
		if _, _, err := statement.Of(changed); !errors.As(err, &wrong) || wrong.Link != run.LinkEvidence {
			rt.Fatalf("of a run with %s for %s: %v, want broken evidence", neighbour, number, err)
		}

		redacted, err := run.Apply(rec.Run, run.Event{Kind: run.Redacted, Run: rec.Run.ID, At: rec.Run.UpdatedAt, Redaction: &run.Redaction{Steps: []int{1}, Whole: true}})
		if err != nil {
			rt.Fatal(err)
		}
		rec.Run = redacted
		data = signed(t, k, rec)
		report, err := statement.Verify(t.Context(), data, k.Public())
		if err != nil || report.Steps[0].Evidence != statement.Erased || report.Steps[0].Challenge != statement.Compared {
			rt.Fatalf("after redaction Verify = %+v, %v", report, err)
		}
		if strings.Contains(string(data), `"id":`) {
			rt.Fatalf("evidence is left in %s", data)
		}
	})
}
