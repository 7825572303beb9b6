package forgery_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/e2e/forgery"
	"github.com/kairos-mcp/kairos/examples/calendar-server/calendar"
)

// fromOutside are the attacks of independent attackers as they are made, by their names.
var fromOutside = map[string]attempt{
	"bring your own client":          bringAClient,
	"inflate the question":           inflateTheQuestion,
	"choose what is observed":        chooseWhatIsObserved,
	"respell the command":            respellTheCommand,
	"retry until lucky":              retryUntilLucky,
	"an option inside a value":       optionInAValue,
	"weaken, begin, restore":         weakenAndRestore,
	"decide in the operator's place": decideForTheOperator,
	"attest another run":             attestAnotherRun,
}

// prosaic reports whether the record is only a text.
func (x *trial) prosaic() bool {
	return x.record == forgery.Reported || x.record == forgery.Judged
}

// serve starts the server on a port of loopback, for every agent.
func (x *trial) serve() {
	x.Helper()
	x.configure()
	if x.record == forgery.Observed {
		x.addTools()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		x.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close() // only its port is wanted
	var log bytes.Buffer
	server := x.program(x.Context(), "serve", "--http", address)
	server.Stderr = &log
	if err := server.Start(); err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
		if x.Failed() {
			x.Log(log.String())
		}
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if status, _ := x.get("http://" + address + "/readyz"); status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			x.Fatalf("the server is not ready: %s", log.String())
		}
	}
	x.url = "http://" + address
}

func (x *trial) get(url string) (status int, err error) {
	req, err := http.NewRequestWithContext(x.Context(), http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

func bringAClient(x *trial) (bool, bool) {
	if x.prosaic() {
		return approveForThePerson(x) // a text has no forms: the agent says that it was approved
	}
	x.serve()
	s := x.start(booking, true)
	s.uri, s.unasked = s.mint(booking.protocol(s.observed)), true // nobody is at the operator's terminal
	s.forges = "always"
	s.beginAgain()
	if s.observed && (s.asked == 0 || strings.Contains(x.kairos("accept", "list"), "every run")) {
		x.Errorf("the client was asked %d times, and what it accepted counts in every run", s.asked)
	}
	s.forges = "once"
	s.beginAgain()
	for _, st := range booking.steps {
		out := ""
		if !s.observed {
			if st.approved {
				s.send(nil) // the client approves itself
			}
			out = x.work(s, st)
		}
		s.report(st.name, out)
	}
	return s.accepted(), x.person.agreed() && len(x.events()) == 1
}

func inflateTheQuestion(x *trial) (bool, bool) {
	x.settings = "approval: {listen: \"127.0.0.1:0\"}\n"
	x.person.declines = true
	first := x.opened(booking)
	x.do(first, booking, "slot")
	x.approved(first, booking.step("event"))
	inflated := rewritten(strings.NewReplacer(`"Talk"`, `"Talk`+strings.Repeat(" about it", 3700)+`"`).Replace)
	if x.prosaic() {
		second := &prose{kind: x.record, procedure: inflated}
		x.do(second, inflated, "slot")
		second.approval("event")
		second.report("event", x.work(second, booking.step("event")))
		return second.accepted(), x.person.agreed()
	}
	first.(*session).leave()
	s := x.start(inflated, true)
	s.begin()
	x.do(s, inflated, "slot")
	out := ""
	for range rounds {
		if link := s.send(nil).ApprovalURL; link != "" {
			x.approveAt(link)
		}
	}
	if !s.observed {
		out = x.work(s, booking.step("event"))
	}
	s.report("event", out)
	return s.accepted(), x.person.agreed()
}

var look4review = procedure{
	title: "See that the review is booked", text: "Look for an event with the title Review, and see that there is one.",
	steps: []step{{
		name: "look", typ: "mcp", form: []string{"count"}, decides: true,
		params: `{"tool_name":"list_events","expected_result":{"count":1}}`,
		schema: `{"type":"object","required":["count"],"properties":{"count":{"type":"integer"}}}`,
	}},
}

func chooseWhatIsObserved(x *trial) (bool, bool) {
	x.only = "find_slot,list_events"
	x.tool("create_event", map[string]any{"title": "Talk", "participants": []string{"adam@example.com"}, "start": "2026-03-03T13:00:00Z", "end": "2026-03-03T13:30:00Z"})
	r := x.opened(look4review)
	if s, ok := r.(*session); ok && s.observed {
		x.write("review.md", look4review.protocol(true))
		if said := x.kairos("lint", x.path("review.md")); !strings.Contains(said, "the agent chooses what KAIROS calls the tool with") {
			x.Errorf("lint does not warn: %s", said)
		}
		s.send(map[string]any{"evidence": map[string]any{"title": "Talk"}})
		s.report("look", "")
	} else {
		r.report("look", x.tool("list_events", map[string]any{"title": "Talk"}))
	}
	return r.accepted(), slices.ContainsFunc(x.events(), func(e calendar.Event) bool { return e.Title == "Review" })
}

func respellTheCommand(x *trial) (bool, bool) {
	x.settings = "approval: {how: [form, agent]}\n"
	x.person.declines = true
	first := x.opened(deploy)
	x.approved(first, deploy.step("deploy"))
	again := deploy
	again.title, again.steps = "Deploy it", []step{command("deploy", "sh  deploy.sh", true)}
	var second record = &prose{kind: x.record, procedure: again}
	if s, ok := first.(*session); ok {
		s.leave()
		alone := x.start(again, false)
		alone.begin()
		second = alone
	}
	out := ""
	if s, ok := second.(*session); ok && s.observed {
		s.send(nil) // KAIROS says what it would do, which is what is approved
	} else {
		out = x.work(second, again.step("deploy"))
	}
	second.approval("deploy")
	second.report("deploy", out)
	return second.accepted(), x.person.agreed()
}

var check = procedure{
	title: "Check the calendar", text: "See that the calendar finds a slot.",
	steps: []step{withDecision(booking.steps[0])},
}

func withDecision(st step) step { st.decides = true; return st }

func retryUntilLucky(x *trial) (bool, bool) {
	x.rogue(flaky)
	r := x.opened(check)
	s, ok := r.(*session)
	if !ok || !s.observed {
		r.report("slot", x.tool("find_slot", map[string]any{"participants": []string{"adam@example.com"}, "duration_minutes": 30})) // until it succeeds
		return r.accepted(), false
	}
	s.report("slot", "")
	if calls, err := os.ReadFile(x.path("calendar.json.failed")); err != nil || len(calls) != 3 {
		x.Fatalf("the tool was called %d times, want 3 (%v)", len(calls), err)
	}
	accepted := s.accepted()
	told := len(s.attested.Tries) == 1 && s.attested.Tries[0].Discarded == 2 && s.attested.Tries[0].Attempts == 3
	x.kairos("runs", "export", s.run, "--file", x.path("run.json"))
	for what, said := range map[string]string{"runs show": x.kairos("runs", "show", s.run), "the statement": x.kairos("runs", "verify", x.path("run.json"))} {
		if told = told && strings.Contains(said, "2 observations of the server that did not count"); !told {
			x.Logf("%s and attest say nothing of the failures: %s", what, said)
		}
	}
	return accepted, told
}

var named = procedure{
	title: "Run a test by its name", text: "Choose a test of the change, and run it.",
	steps: []step{
		{name: "choice", typ: "mcp", form: []string{"test"}, params: `{"tool_name":"choose_test"}`, schema: `{"type":"object","required":["test"],"properties":{"test":{"type":"string"}}}`},
		command("test", "sh run.sh {{ steps.choice.test }}", false),
	},
}

func optionInAValue(x *trial) (bool, bool) {
	x.write("work/run.sh", `case "$1" in --version) echo 1.0; exit 0;; esac; sh test.sh && echo tested $1 >>done`+"\n")
	x.must(x.sh("git add -A && git -c user.name=t -c user.email=t@example.com commit -q -m run"))
	r := x.opened(named)
	r.report("choice", `{"test":"--version"}`)
	out := ""
	if x.record != forgery.Observed {
		x.must(x.sh("sh run.sh --version"))
		out = `{"exit_code":0,"stdout":"1.0"}`
	}
	r.report("test", out)
	return r.accepted(), strings.Contains(x.done(), "tested")
}

func weakenAndRestore(x *trial) (bool, bool) {
	r := x.opened(testRun)
	s, ok := r.(*session)
	if !ok {
		r.report("test", ranWell)
		return r.accepted(), false
	}
	strong, weak := testRun, testRun
	weak.steps = []step{command("test", "true", false)}
	update := func(p procedure) {
		_, text, _ := strings.Cut(p.protocol(s.observed), "\n## ")
		var reply api.UpdateReply
		s.call("kairos_update", map[string]any{"uris": []string{s.uri}, "markdown_doc": []string{"## " + text}}, &reply)
		if reply.TotalUpdated != 1 {
			x.Fatalf("kairos_update = %+v", reply)
		}
	}
	update(weak)
	s.beginAgain()
	update(strong)
	if s.observed {
		x.kairos("accept", "--run", s.run, "--yes")
	}
	out := ""
	if !s.observed {
		out = ranWell
	}
	s.report("test", out)
	accepted := s.accepted()
	told := s.attested.Protocol != nil && !s.attested.Protocol.Current
	if shown := x.kairos("runs", "show", s.run); !strings.Contains(shown, "which differs from the stored protocol") {
		x.Logf("runs show does not say it: %s", shown)
		told = false
	}
	return accepted, told || x.committed("test.sh")
}

func decideForTheOperator(x *trial) (bool, bool) {
	x.rogue(dying)
	if x.record != forgery.Observed {
		// The agent's own call fails, and it makes another.
		r := x.opened(booking)
		x.do(r, booking, "slot")
		x.approved(r, booking.step("event"))
		x.ends("create_event", x.arguments(r))
		r.report("event", x.tool("create_event", x.arguments(r)))
		return r.accepted(), len(x.events()) == 1
	}
	x.serve()
	s := x.start(booking, true)
	s.begin()
	x.do(s, booking, "slot")
	for range rounds {
		if reply := s.send(nil); reply.ErrorCode == "OUTCOME_UNKNOWN" {
			break
		}
	}
	if len(x.events()) != 1 {
		x.Fatal("nothing was booked")
	}
	body, err := json.Marshal(map[string]any{"run_id": s.run, "happened": false, "reason": "the calendar has nothing"})
	if err != nil {
		x.Fatal(err)
	}
	req, err := http.NewRequestWithContext(x.Context(), http.MethodPost, x.url+"/api/runs_decide", bytes.NewReader(body))
	if err != nil {
		x.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		x.Fatal(err)
	}
	x.Logf("runs_decide: %s", res.Status)
	_ = res.Body.Close()
	s.report("event", "")
	return s.accepted(), len(x.events()) == 1
}

var nothing = procedure{title: "Look around", text: "Look around.", steps: []step{command("look", "true", false)}}

func attestAnotherRun(x *trial) (bool, bool) {
	if x.prosaic() {
		r := x.opened(checkAndDeploy)
		r.report("check", ranWell)
		r.approval("deploy")
		r.report("deploy", ranWell)
		return r.accepted(), x.done() != ""
	}
	s := x.opened(nothing).(*session)
	out := ""
	if !s.observed {
		out = ranWell
	}
	s.report("look", out)
	s.uri = s.mint(checkAndDeploy.protocol(s.observed))
	return s.accepted(), strings.Contains(x.done(), "deployed")
}
