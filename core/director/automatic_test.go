package director_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// within is the answer to the question after that time.
func (w *world) within(after time.Duration, a *director.Ask, result string) director.Round {
	w.t.Helper()
	r, err := w.Continue(context.Background(), w.caller, director.Continuation{
		Run: a.Run, Seq: a.Seq, Result: json.RawMessage(result), Delay: &run.Delay{After: after},
	})
	if err != nil {
		w.t.Fatalf("Continue: %v", err)
	}
	return r
}

// reflexes answers the last question as a client does that asks nobody.
func reflexes(result, want string, says ...string) move {
	return func(p *play) {
		p.t.Helper()
		p.took(p.within(8*time.Millisecond, p.question, result))
		p.wants(want, says)
	}
}

// linked checks whether the last reply has a link.
func linked(has bool) move {
	return func(p *play) {
		p.t.Helper()
		if got := p.shown.ApprovalURL; (got != "") != has {
			p.t.Errorf("approval_url = %q, want one: %v", got, has)
		}
	}
}

// over runs the world with a connection, which the answers come through.
func over(connection string) move { return func(p *play) { p.caller.Connection = connection } }

// personDoc asks a person.
const personDoc = "# Ask\n\n## Say\n\nsay it\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"say\"}}}\n```\n"

const byItself = "The client declined by itself in 8 ms, faster than a person can, so this is not a person's answer"

func TestAnAutomaticAnswerIsNotAPersons(t *testing.T) {
	gated := gatedCall("Gated", "go")
	asked := func(moves ...move) []move { return append([]move{calls(toPerson)}, moves...) }
	scenes(t, map[string]scene{
		"a decline, with a page": {doc: gated, client: formClient, change: hasPage, moves: asked(
			reflexes(no, "USER_DECLINED", byItself, "Show the link"), linked(true), counted(0), obeyed(true),
			calls("WAITING_FOR_USER"), linked(true), happened("asked elicitation", "automated elicitation", "route_closed elicitation", "asked page"),
		)},
		"a dismissal, with a page":    {doc: gated, client: formClient, change: hasPage, moves: asked(reflexes(closed, "WAITING_FOR_USER", "closed the question by itself in 8 ms"), linked(true))},
		"a decline, without a page":   {doc: gated, client: formClient, moves: asked(reflexes(no, "USER_DECLINED", byItself), linked(false), obeyed(false), counted(0))},
		"a rejection, with a page":    {doc: gated, client: formClient, change: hasPage, moves: asked(reflexes(`{"action":"accept","content":{"confirmation":"rejected"}}`, "USER_DECLINED", byItself), linked(true))},
		"nonsense, filled in at once": {doc: gated, client: formClient, change: hasPage, moves: asked(reflexes(`{}`, "USER_DECLINED", byItself), linked(true))},
		"a slow decline":              {doc: gated, client: formClient, change: hasPage, moves: asked(answers(no, "USER_DECLINED", "The person declined"), linked(false), counted(1))},
		"an approval in no time":      {doc: gated, client: formClient, change: hasPage, moves: asked(reflexes(yes, "", "Step 1 is approved"))},
	})
}

func TestHowFastAnAnswerIsNotAPersons(t *testing.T) {
	for name, tc := range map[string]struct {
		delay     run.Delay
		automatic bool
	}{
		"at once":                     {run.Delay{}, true},
		"just too fast":               {run.Delay{After: run.PersonTakes - time.Millisecond}, true},
		"as a person":                 {run.Delay{After: run.PersonTakes}, false},
		"from far away":               {run.Delay{After: 700 * time.Millisecond, RoundTrip: 300 * time.Millisecond}, true},
		"a person far away":           {run.Delay{After: 900 * time.Millisecond, RoundTrip: 300 * time.Millisecond}, false},
		"by a client that is slow":    {run.Delay{After: 4 * time.Second, RoundTrip: time.Minute}, false},
		"by a slow client, in a rush": {run.Delay{After: 2 * time.Second, RoundTrip: time.Minute}, true},
	} {
		w := withPage(t, nil)
		w.caller.Client = formClient
		uri := w.mint(gatedCall("Gated", "go"))[0]
		a := w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson)
		r, err := w.Continue(t.Context(), w.caller, director.Continuation{Run: a.Run, Seq: a.Seq, Result: json.RawMessage(no), Delay: &tc.delay})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.reply(r).ApprovalURL != ""; got != tc.automatic {
			t.Errorf("%s: automatic = %v, want %v", name, got, tc.automatic)
		}
	}
}

// A client whose connection measures nothing is timed by the record, also after a restart.
func TestAnAnswerAfterARestartIsTimedByTheRecord(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		code  string
		link  bool
	}{
		"at once":     {0, "USER_DECLINED", true},
		"by a person": {10 * time.Second, "USER_DECLINED", false},
		"set back":    {-time.Hour, "USER_DECLINED", false}, // nobody knows how long it took
	} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, nil)
			w.caller.Client = formClient
			uri := w.mint(gatedCall("Gated", "go"))[0]
			a := w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson)
			w.machine.Pass(max(tc.after, 0))
			if tc.after < 0 {
				w.machine.Jump(tc.after)
			}
			r, err := w.another().Engine.Continue(t.Context(), w.caller, director.Continuation{Run: a.Run, Seq: a.Seq, Result: json.RawMessage(no)})
			if err != nil {
				t.Fatal(err)
			}
			w.code(w.reply(r), tc.code)
			if got := r.Reply.ApprovalURL != ""; got != tc.link {
				t.Errorf("approval_url = %q, want one: %v", r.Reply.ApprovalURL, tc.link)
			}
			for _, m := range w.timeline(r.Reply).Moments {
				if m.Delay != nil && m.Delay.After < 0 {
					t.Errorf("%s took %s", m.What, m.Delay.After)
				}
			}
		})
	}
}

// The measured poisoning: the automatic decline of one client kept another's person from approving.
func TestAnAutomaticDeclineDoesNotBlockAPersonElsewhere(t *testing.T) {
	w := withPage(t, func(o *choices) { o.DeclineTTL = time.Hour })
	uri := w.mint(gatedCall("Gated", "go"))[0]
	w.caller.Client, w.caller.Connection = formClient, "codex"
	w.code(w.reply(w.within(time.Millisecond, w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson), no)), "USER_DECLINED")
	w.caller.Client, w.caller.Connection = driver.Client{Name: "gemini"}, "gemini"
	waits := w.next(uri, placeholder(w.begin(uri)))
	w.code(waits, "WAITING_FOR_USER")
	if v := w.decide(waits, "approved", ""); v.State != approval.Approved {
		t.Fatalf("the page says %+v", v)
	}
	r := w.next(uri, placeholder(waits))
	w.code(w.next(uri, solve(r, works)), "")
}

func TestTheLinkAfterAnAutomaticAnswerStaysGood(t *testing.T) {
	var link string
	same := func(p *play) {
		p.t.Helper()
		if link == "" {
			link = p.shown.ApprovalURL
		}
		if p.shown.ApprovalURL != link {
			p.t.Errorf("approval_url = %q, want the same as before, %q", p.shown.ApprovalURL, link)
		}
	}
	another := func(p *play) { p.caller.Connection = "another"; p.caller.Client = formClient }
	scene{doc: gatedCall("Gated", "go"), client: formClient, change: hasPage, moves: []move{
		over("a"), calls(toPerson), reflexes(no, "USER_DECLINED"), same,
		calls("WAITING_FOR_USER"), same,
		through(driver.Client{}), calls("WAITING_FOR_USER"), same,
		another, calls(toPerson), reflexes(closed, "WAITING_FOR_USER"), same,
		calls("WAITING_FOR_USER"), same,
		onPage("approved"), calls(""), sends(works, ""), solved(driver.AgentReported),
	}}.play(t)
}

func TestWhatIsSubmittedWhileAPersonReadsKeepsTheLink(t *testing.T) {
	w := withPage(t, nil)
	w.caller.Client, w.caller.Connection = formClient, "a"
	uri := w.mint(gatedCall("Gated", "go"))[0]
	open := w.begin(uri)
	waits := w.reply(w.within(time.Millisecond, w.ask(w.nextRound(uri, placeholder(open)), toPerson), no))
	for name, solution := range map[string]string{
		"work": solve(waits, works), "other work": solve(waits, `{"ok":true,"more":true}`), "a report of an approval": solveAs(waits, "user_input", approves),
		"another type": solveAs(waits, "shell", works), "a wrong hash": wrongHash(waits), "nothing": "", "the placeholder": placeholder(waits),
	} {
		r, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uri, Solution: json.RawMessage(solution)})
		if err != nil {
			continue // it is refused outright
		}
		if r.Reply == nil {
			t.Fatalf("%s: the client is asked %+v", name, r.Ask)
		}
	}
	if v := w.decide(waits, "approved", ""); v.State != approval.Approved {
		t.Fatalf("the page says %+v, want approved", v)
	}
}

func TestAfterAnAutomaticAnswerOnlyAPersonApproves(t *testing.T) {
	samples := driver.Client{ElicitationForm: true, Sampling: true}
	doc := gatedCall("Gated", "go")
	scenes(t, map[string]scene{
		"not the agent": {doc: doc, client: formClient, change: trustsAgent, moves: []move{
			calls(toPerson), reflexes(no, "USER_DECLINED", byItself), obeyed(false),
			submits(as("user_input", approves), "APPROVAL_UNAVAILABLE", "only a person approves"),
		}},
		"not through another client": {doc: doc, client: formClient, change: trustsAgent, moves: []move{
			over("a"), calls(toPerson), reflexes(no, "USER_DECLINED"),
			over("b"), through(driver.Client{}), submits(as("user_input", approves), "APPROVAL_UNAVAILABLE", "only a person approves"),
		}},
		"not a review": {
			doc: strings.Replace(doc, `"mcp":{`, `"sampling":{"user":"continue"},"mcp":{`, 1), client: samples,
			moves: []move{begun(toPerson), reflexes(closed, "USER_DECLINED"), obeyed(false), calls("APPROVAL_UNAVAILABLE", "only a person approves")},
		},
		"a person in a form elsewhere": {doc: doc, client: formClient, change: trustsAgent, moves: []move{
			over("a"), calls(toPerson), reflexes(no, "USER_DECLINED"), over("b"), calls(toPerson), answers(yes, "", "Step 1 is approved"), sends(works, ""),
		}},
	})
}

func TestAnAutomaticDeclineUndoesNoEarlierOne(t *testing.T) {
	w := withPage(t, func(o *choices) { o.DeclineTTL = time.Hour })
	uri := w.mint(gatedCall("Gated", "go"))[0]
	w.caller.Client = formClient
	r := w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson), no))
	w.code(r, "USER_DECLINED")
	again := w.reply(w.within(time.Millisecond, w.ask(w.nextRound(uri, placeholder(r)), toPerson), no))
	w.code(again, "USER_DECLINED")
	if again.ApprovalURL != "" {
		t.Errorf("approval_url = %q after a person declined", again.ApprovalURL)
	}
	if step := w.state(runOf(again)).Step; step.Declines["approval"] != "elicitation" {
		t.Errorf("declines = %v, want the person's to stand", step.Declines)
	}
	w.caller.Client = driver.Client{}
	contains(t, textOf(w.agentApproves(uri)), "nly a person can approve what a person declined")
}

func TestAHostileClientThatAnswersFastAndThenSlowlyGainsNothing(t *testing.T) {
	doc := gatedCall("Gated", "go")
	keeps := func(o *choices) { trustsAgent(o); hasPage(o); o.DeclineTTL = time.Hour }
	scenes(t, map[string]scene{
		"an approval in no time takes no decline back": {doc: doc, client: formClient, change: keeps, moves: []move{
			calls(toPerson), answers(no, "USER_DECLINED"), calls(toPerson), reflexes(yes, "USER_DECLINED"),
			func(p *play) {
				if step := p.state(runOf(p.shown)).Step; step.Approval != nil || step.Declines["approval"] == "" {
					p.t.Errorf("after an approval in no time: approval %+v, declines %v", step.Approval, step.Declines)
				}
			},
		}},
		"fast, then slowly: the slow decline counts": {doc: doc, client: formClient, change: keeps, moves: []move{
			over("a"), calls(toPerson), reflexes(no, "USER_DECLINED"), over("b"), calls(toPerson), answers(no, "USER_DECLINED", "The person declined"),
			through(driver.Client{}), func(p *play) { contains(p.t, textOf(p.agentApproves(p.uri)), barred) },
		}},
		"an approval in no time forgets no decline of another run": {doc: doc, client: formClient, change: keeps, moves: []move{
			func(p *play) { p.declines(p.uri) },
			calls(toPerson), reflexes(yes, "USER_DECLINED", "Nothing is decided"), through(driver.Client{}), func(p *play) { contains(p.t, textOf(p.agentApproves(p.uri)), barred) },
		}},
	})
}

func TestAConnectionThatAnswersItselfIsNotAskedTheSameAgain(t *testing.T) {
	w := withPage(t, nil)
	uri := w.mint(gatedCall("Gated", "go"))[0]
	other := w.mint(gatedCall("Another", "come"))[0]
	w.caller.Client, w.caller.Connection = formClient, "a"
	w.reply(w.within(time.Millisecond, w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson), no))
	w.code(w.next(uri, placeholder(w.begin(uri))), "WAITING_FOR_USER") // of another run, on the page
	w.ask(w.nextRound(other, placeholder(w.begin(other))), toPerson)   // of another action
	w.caller.Connection = "b"
	w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson)
}

// In a later run nobody is asked by form, so the page is there from the first reply.
func TestAQuestionThatAConnectionAnsweredItselfBeforeHasAPage(t *testing.T) {
	w := withPage(t, nil)
	w.drivers.set(asksForm, true)
	uri := w.mint(personDoc)[0]
	w.caller.Client, w.caller.Connection = formClient, "a"
	w.reply(w.within(time.Millisecond, w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson), no))
	for range 2 {
		if again := w.next(uri, placeholder(w.begin(uri))); again.ApprovalURL == "" || again.MustObey != true {
			t.Errorf("another run says %+v, want a page for the person", again)
		}
	}
}

func TestAFastApprovalIsSaidToBeTheClients(t *testing.T) {
	w := withPage(t, nil)
	uri := w.mint(gatedCall("Gated", "go"))[0]
	w.caller.Client = formClient
	r := w.reply(w.within(8*time.Millisecond, w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson), yes))
	done := w.next(uri, solve(r, works))
	w.code(done, "")
	line := w.timeline(done)
	if want := "; approval of 1 step answered by the client in 8 ms"; !strings.HasSuffix(line.Worth, want) {
		t.Errorf("worth = %q, want %q at its end", line.Worth, want)
	}
	if m := w.moment(done, "approved"); m.Verdict != "answered by the client in 8 ms" {
		t.Errorf("the timeline says of the approval %q", m.Verdict)
	}
}

func TestAFastAnswerIsSaidToBeTheClients(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(personDoc)[0]
	w.caller.Client = formClient
	done := w.reply(w.within(8*time.Millisecond, w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson), sampled))
	if line := w.timeline(done); line.Worth != "1 step answered by the client in 8 ms" {
		t.Errorf("worth = %q", line.Worth)
	}
}

func TestAnApprovalThatCameTooFastForARuleDoesNotCount(t *testing.T) {
	doc := gatedCall("Gated", "go")
	slow := func(t *testing.T) *world {
		w := withPage(t, nil)
		s := w.setups.present
		w.describes()
		w.setups.replace(w.ruled(s, "{type: mcp, approval: {after: 4s}}"))
		return w
	}
	scenes(t, map[string]scene{
		"an approval in no time": {doc: doc, client: formClient, world: slow, moves: []move{
			calls(toPerson), reflexes(yes, "USER_DECLINED", "The answer came in 8 ms, and an approval of this step counts only after 4s"), linked(true),
		}},
		"an approval too soon": {doc: doc, client: formClient, world: slow, moves: []move{calls(toPerson), answers(yes, "USER_DECLINED", "counts only after 4s")}},
		"an approval in time": {doc: doc, client: formClient, world: slow, moves: []move{calls(toPerson), func(p *play) {
			p.took(p.within(5*time.Second, p.question, yes))
			p.wants("", []string{"Step 1 is approved"})
		}, sends(works, "")}},
		"on the page": {doc: doc, world: slow, moves: []move{
			calls("WAITING_FOR_USER"),
			func(p *play) {
				_, err := p.AnswerApproval(p.t.Context(), p.caller, runOf(p.shown), secretOf(p.shown), approval.Answer{Decision: "approved", Digest: p.view(p.shown).Digest})
				refused(p.t, err, "INVALID_ARGUMENT", "counts only after 4s")
			},
			passes(5 * time.Second), onPage("approved"), calls(""), sends(works, ""),
		}},
	})
}
