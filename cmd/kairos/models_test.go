package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// sampledType is a challenge type as the client's model is asked for it.
type sampledType struct {
	challenge string // the object named like the type
	wording   string // of the prompt, as the challenge prompts document has it
	good      string
}

var sampledTypes = map[string]sampledType{
	"shell": {`{"cmd":"make build"}`, "Run this command", `{"exit_code":0,"stdout":"built"}`},
	"mcp":   {`{"tool_name":"find","arguments":{"q":"x"}}`, "The MCP tool find", `{"tool_name":"find","arguments":{"q":"x"},"result":{"found":1},"success":true}`},
	"user_input": {`{"prompt":"Deploy?"}`, "Show the following prompt to the user. Return only JSON",
		`{"confirmation":"approved"}`},
	"comment": {`{"min_length":20}`, "Provide a verification comment (min 20 chars)", `{"text":"The build ran and wrote two programs into bin."}`},
}

func (s sampledType) document(kind, more string) string {
	return fmt.Sprintf("# %%s\n\n## Do\n\nDo it.\n\n```json\n{\"challenge\":{\"type\":%[1]q,%[1]q:%[2]s,\"sampling\":{}%[3]s}}\n```\n", kind, s.challenge, more)
}

// A model of the server's own is a driver and an entry of the tree: a client that
// can do nothing is not asked, and a judge finds one result good and one bad.
func TestAModelOfTheServersOwnIsOneEntryOfTheTree(t *testing.T) {
	long(t)
	t.Parallel()
	e := newChat(t)
	server := &served{t: t, dir: t.TempDir()}
	server.write("tree.yaml", "defaults: {missing_type: shell, no_challenge_type: comment}\nchallenges:\n  - match: {}\n    evidence:\n      - {via: agent, when: 'solution.supplied'}\n"+
		"      - {via: llm, when: 'challenge.has_sampling'}\n      - {via: agent}\ninputs:\n  judge: [{via: llm}]\n")
	server.write("kairos.yaml", fmt.Sprintf("database: data/kairos.db\nadmin: {socket: run/admin.sock}\ntree: tree.yaml\n"+
		"drivers:\n  dir: %s\n  settings:\n    llm: {config: {base_url: %s/v1, model: m-1, judge_model: judge-1}}\n", buildDrivers(t), e.URL))
	b := programOf(server.startHTTP())
	t.Run("in", func(t *testing.T) {
		inBothEras(t, func(t *testing.T, era string) {
			s := &stage{b.visit(t, era, hasNothing), t}
			typ := sampledTypes["comment"]
			r := s.begun(s.document(typ.document("comment", `,"judge":{"required":true}`)), "")
			if len(r.Solved) != 1 || r.Solved[0].Via != "llm" || r.Solved[0].Provenance != driver.ModelGenerated {
				t.Fatalf("kairos_begin = %+v, want the step solved by the server's own model", r)
			}
			s.proves(r, driver.ModelGenerated)

			bad := s.begun(b.mint(fmt.Sprintf("# %s\n\n## Tell\n\nTell why.\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"comment\":{},\"judge\":{}}}\n```\n", t.Name()+" judged"))[0], "")
			refused := s.submit(bad, "comment", `{"text":"Nothing of note was done here at all."}`).step()
			s.code(refused, "JUDGED_INSUFFICIENT")
			if !judgedBy(b.timeline(t, bad.RunID), "judge-1") {
				t.Errorf("the timeline does not tell of the judge's model: %+v", b.timeline(t, bad.RunID).Moments)
			}
			s.proves(refused)
		})
	})
	b.routed(2, "comment", "evidence", "llm", "accepted", "")
	b.routed(2, "comment", "evidence", "agent", "rejected", "JUDGED_INSUFFICIENT")
	b.routed(4, "comment", "judge", "llm", "answered", "")
}

func judgedBy(line archive.Timeline, model string) bool {
	for _, m := range line.Moments {
		if m.Via == "llm" && m.Model == model && strings.Contains(string(m.Answer), "satisfied") {
			return true
		}
	}
	return false
}

// newChat is a chat endpoint that writes comments, and as a judge is content
// with all but those that say that nothing was done. It answers prose first, so
// that every question is repaired once.
func newChat(t *testing.T) *httptest.Server {
	t.Helper()
	var asked sync.Map
	e := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model    string
			Messages []struct{ Content string }
		}
		raw, _ := io.ReadAll(r.Body)
		if json.Unmarshal(raw, &body) != nil || len(body.Messages) != 2 {
			http.Error(w, "not a chat", http.StatusTeapot)
			return
		}
		text := sampledTypes["comment"].good
		if body.Model == "judge-1" {
			text = fmt.Sprintf(`{"satisfied":%v,"reason":"it is what it says"}`, !strings.Contains(body.Messages[1].Content, "Nothing of note"))
		}
		if _, again := asked.LoadOrStore(body.Messages[1].Content, true); !again && !strings.Contains(body.Messages[1].Content, "could not be taken") {
			text = "Well, " + text
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"model": body.Model, "choices": []any{
			map[string]any{"message": map[string]any{"role": "assistant", "content": text}, "finish_reason": "stop"},
		}})
	}))
	t.Cleanup(e.Close)
	return e
}
