package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// calendar is the protocol of the calendar with a last step that the agent does:
// four steps, three of which the server obtains itself, two from the client's
// model and one from a person.
func calendar(b *testing.B) string {
	b.Helper()
	text, err := os.ReadFile(filepath.Join("..", "protocols", "calendar-appointment.md"))
	if err != nil {
		b.Fatal(err)
	}
	head, _, found := bytes.Cut(text, []byte("\n## Create event\n"))
	if !found {
		b.Fatal("the example has no step that creates the event")
	}
	return string(head) + "\n## Create event\n\nBook it.\n\n" +
		"```json\n{\"challenge\":{\"type\":\"mcp\",\"mcp\":{\"tool_name\":\"create_event\",\"arguments\":{\"start\":\"{{ steps.slot.start }}\"}}}}\n```\n"
}

const (
	people = `{"resolved":{"Adam":"adam@co.example","Betty":"betty@co.example","Candy":null}}`
	slot   = `{"start":"2026-12-01T09:00:00Z","end":"2026-12-01T09:30:00Z","participants":["adam@co.example","betty@co.example"]}`
)

// reply is what the client of these figures answers, at once.
func reply(b *testing.B, q *inquiry) any {
	switch {
	case q.Method == "elicitation/create":
		return form(map[string]any{"duration_minutes": 30})
	case q.Method == "sampling/createMessage" && bytes.Contains(q.Params, []byte("find_slot")):
		return said(slot)
	case q.Method == "sampling/createMessage":
		return said(people)
	}
	b.Fatalf("the server asks %s", q.Method)
	return nil
}

// stepsDriven is how many steps of the calendar the server obtains itself.
const stepsDriven = 3

// appointment plays one run of the calendar and returns the server's time for
// each step: that of every exchange it took.
func appointment(b *testing.B, a *agent, uri string) (steps [stepsDriven + 1]time.Duration) {
	tool, arguments := "kairos_begin", map[string]any{"uri": uri, "input": map[string]any{"participants": []string{"Adam", "Betty", "Candy"}}}
	var open stepReply
	for i := range stepsDriven {
		c, q, r := a.converse(b, tool, arguments)
		if q == nil {
			b.Fatalf("step %d is not obtained by the server: %+v", i+1, r)
		}
		again, r := c.answer(b, q, reply(b, q))
		if again != nil || len(r.Solved) != 1 || r.ErrorCode != "" {
			b.Fatalf("step %d is not solved: %+v %+v", i+1, again, r)
		}
		steps[i], open = c.server, r
		tool, arguments = "kairos_next", map[string]any{"uri": r.CurrentStep.URI, "run_id": r.RunID}
	}
	arguments["solution"] = map[string]any{
		"type": "mcp", "nonce": open.Challenge.Nonce, "proof_hash": open.Challenge.ProofHash,
		"mcp": map[string]any{"tool_name": "create_event", "arguments": map[string]any{"start": "2026-12-01T09:00:00Z"}, "result": map[string]any{}, "success": true},
	}
	c, q, r := a.converse(b, tool, arguments)
	if q != nil || r.ProofHash == "" {
		b.Fatalf("the last step is not solved: %+v %+v", q, r)
	}
	steps[stepsDriven] = c.server
	return steps
}

// drivenCalls are the driver calls of a step that the client's model answers,
// on drivers that go-plugin alone has started: what the step needs, the prompt,
// the answer read and judged, what the step behind it needs and how it is shown.
func drivenCalls(b *testing.B) func() {
	b.Helper()
	judge, ask, show := dispense(b, "mcp").Challenge(), dispense(b, "sampling").Capability(), dispense(b, "agent").Capability()
	step := driver.Step{Protocol: "Bench", Label: "One", Text: "## One\n\nRun it.", Index: 1, Count: 2}
	client := driver.Client{ElicitationForm: true, Sampling: true}
	req := driver.AdvanceRequest{Challenge: json.RawMessage(`{"type":"mcp","mcp":{"tool_name":"find_user_by_name"}}`), Step: step, Client: client}
	answer, err := json.Marshal(said(`{"tool_name":"find_user_by_name","result":` + people + `,"success":true}`))
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	need := func() driver.Input {
		res, err := judge.Advance(ctx, req)
		if err != nil {
			b.Fatal(err)
		}
		return res.NeedInput[0]
	}
	return func() {
		in := need()
		if _, err := ask.Render(ctx, driver.RenderRequest{Input: in, Step: step, Client: client}); err != nil {
			b.Fatal(err)
		}
		read, err := ask.Interpret(ctx, driver.InterpretRequest{Input: in, Step: step, Client: client, Raw: answer})
		if err != nil || read.Answer == nil {
			b.Fatal(err, read)
		}
		read.Answer.InputID = in.ID
		judged := req
		judged.Answers = []driver.Answer{*read.Answer}
		if res, err := judge.Advance(ctx, judged); err != nil || res.Accepted == nil {
			b.Fatal(err, res)
		}
		if _, err := show.Render(ctx, driver.RenderRequest{Input: need(), Step: step, Client: client}); err != nil {
			b.Fatal(err)
		}
	}
}

// drivenRuns is how many runs of the calendar are played in each era.
const drivenRuns = 400

// BenchmarkDirectorStep is what the server takes for a step that it obtains
// itself, over HTTP, from a client that answers at once: the time between each
// request of the client and what the server sends next, without the client's
// own. Its floors, measured right after each run: for each of the two exchanges
// a tool that does nothing on mcp-go's own server and one durable commit, and
// the driver calls on bare go-plugin clients.
func BenchmarkDirectorStep(b *testing.B) {
	for _, era := range eras {
		b.Run(era, func(b *testing.B) {
			dir, client := b.TempDir(), newClient()
			kairos, noop := serveKairos(b, programs(b), dir), floorServer(b, noopHTTP)
			defer kairos.stop(b)
			defer noop.stop(b)
			a := introduce(b, kairos, era, client, able)
			uri := mint(b, a, calendar(b))
			noopAgent := newAgent(b, noop, era, client)
			commit, calls := committer(b, dir), drivenCalls(b)
			appointment(b, a, uri) // starts the drivers

			var driven, call, durable, drivers samples
			var each [stepsDriven + 1]samples
			for b.Loop() {
				for range drivenRuns {
					for i, took := range appointment(b, a, uri) {
						each[i] = append(each[i], took)
						if i < stepsDriven {
							driven = append(driven, took)
						}
					}
					_, took := noopAgent.call(b, "noop", map[string]any{})
					call = append(call, took)
					durable.measure(commit)
					drivers.measure(calls)
				}
			}
			floor := 2*call.p50() + 2*durable.p50() + drivers.p50()
			b.ReportMetric(driven.p50(), "p50-ms")
			b.ReportMetric(driven.percentile(99), "p99-ms")
			for i, s := range each {
				b.ReportMetric(s.p50(), fmt.Sprintf("step-%d-ms", i+1))
			}
			b.ReportMetric(call.p50(), "floor-call-ms")
			b.ReportMetric(durable.p50(), "floor-commit-ms")
			b.ReportMetric(drivers.p50(), "floor-drivers-ms")
			b.ReportMetric(driven.p50()/floor, "x-floors")
			b.ReportMetric(0, "ns/op")
			measured.add(most("a step that the server obtains itself, p50, "+era, driven.p50(), "ms", 6))
		})
	}
}

// runsWaiting is how many runs wait for a person at the same time.
const runsWaiting = 200

// onePerson is a protocol of one step that only a person answers.
const onePerson = "# Release\n\n## Yes\n\nAsk for the release.\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"Release?\"}}}\n```\n"

// BenchmarkDirectorWaiting is what a server holds while many runs wait for a
// person, each of a client of its own, and what is left of them when it was
// killed then: a client of the other era resumes each by its session id, is
// asked, and answers.
func BenchmarkDirectorWaiting(b *testing.B) {
	for i, era := range eras {
		b.Run(era, func(b *testing.B) {
			for b.Loop() {
				measureWaiting(b, era, eras[1-i])
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func measureWaiting(b *testing.B, era, other string) {
	b.Helper()
	dir, client := b.TempDir(), newClient()
	kairos := serveKairos(b, programs(b), dir)
	uri := mint(b, introduce(b, kairos, era, client, able), onePerson)
	waits(b, kairos, era, client, uri).approve(b) // starts the drivers
	idle := residentMB(b, strconv.Itoa(kairos.pid()))

	held := make([]*waiting, runsWaiting)
	var place sync.Mutex
	taken := 0
	inParallel(16, func(int) {
		for {
			place.Lock()
			i := taken
			taken++
			place.Unlock()
			if i >= runsWaiting {
				return
			}
			held[i] = waits(b, kairos, era, client, uri)
		}
	})
	extra := residentMB(b, strconv.Itoa(kairos.pid())) - idle

	if err := kairos.cmd.Process.Kill(); err != nil {
		b.Fatal(err)
	}
	_ = kairos.cmd.Wait() // it was killed
	for _, w := range held {
		_ = w.res.Body.Close()
	}
	client.CloseIdleConnections()
	back := serveKairos(b, programs(b), dir)
	defer back.stop(b)
	resumed := 0
	for _, w := range held {
		if w.resume(b, back, other, client, uri) {
			resumed++
		}
	}
	b.ReportMetric(idle, "idle-MB")
	b.ReportMetric(extra, "extra-MB")
	b.ReportMetric(float64(resumed), "resumed")
	measured.add(most(fmt.Sprintf("%d runs waiting for people, %s", runsWaiting, era), extra, "MB extra", 60))
	measured.add(most("of them lost after SIGKILL and restart, "+era, float64(runsWaiting-resumed), "runs", 0))
}

// waiting is a run whose person was asked and has not answered.
type waiting struct {
	*conversation
	run      string
	question *inquiry
}

func waits(b *testing.B, r *remote, era string, client *http.Client, uri string) *waiting {
	a := introduce(b, r, era, client, able)
	begun, _ := a.call(b, "kairos_begin", map[string]any{"uri": uri})
	c, q, said := a.converse(b, "kairos_next", map[string]any{"uri": uri, "run_id": begun.RunID})
	if q == nil || q.Method != "elicitation/create" {
		b.Fatalf("nobody is asked: %+v %+v", q, said)
	}
	return &waiting{c, begun.RunID, q}
}

func (w *waiting) approve(b *testing.B) {
	b.Helper()
	if again, r := w.answer(b, w.question, form(map[string]any{"confirmation": "approved"})); again != nil || len(r.Solved) != 1 {
		b.Fatalf("the person's yes does not solve the step: %+v %+v", again, r)
	}
}

// resume continues the run from another client and reports whether its person was
// asked again and solved it.
func (w *waiting) resume(b *testing.B, r *remote, era string, client *http.Client, uri string) bool {
	a := introduce(b, r, era, client, able)
	c, q, said := a.converse(b, "kairos_begin", map[string]any{"uri": uri, "session_id": w.run})
	if q == nil && said.RunID == w.run {
		c, q, said = a.converse(b, "kairos_next", map[string]any{"uri": uri, "run_id": w.run})
	}
	if q == nil {
		b.Logf("run %s does not ask: %+v", w.run, said)
		return false
	}
	_, said = c.answer(b, q, form(map[string]any{"confirmation": "approved"}))
	return said.RunID == w.run && len(said.Solved) == 1 && strings.Contains(said.NextAction, "kairos_attest")
}
