package director_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// gatedStep needs a person's approval, and asks for it when it is called.
const gatedStep = "# Gated\n\n## Act\n\nact\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"approval_mode\":\"user\",\"mcp\":{\"tool_name\":\"go\"}}}\n```\n"

// statedStep asks for a person's own answer and states approval mode user.
var statedStep = with(askStep, `"approval_mode":"user"`)

// with adds fields to the only challenge of a protocol.
func with(doc, fields string) string { return strings.Replace(doc, `"type":`, fields+`,"type":`, 1) }

// A rule may demand an approval whatever the step says; else the step says whether a person
// must approve, then the driver of its type; where none says so, nobody is asked.
func TestRulesOnApprovalAreBeforeTheStepsWordAndTheDrivers(t *testing.T) {
	w := newWorld(t, nil)
	modes := []driver.ApprovalMode{"", driver.ApprovalAuto, driver.ApprovalUser}
	for _, step := range modes {
		doc := strings.Replace(approvedStep, `"approval_mode":"user",`, "", 1)
		if step != "" {
			doc = with(doc, fmt.Sprintf(`"approval_mode":%q`, step))
		}
		uri := w.mint(doc)[0]
		for _, rule := range []string{"{type: mcp, evidence: person}", "{type: mcp, approval: {}}"} {
			for _, desc := range modes {
				asks := strings.Contains(rule, "approval") || cmp.Or(step, desc) == driver.ApprovalUser
				t.Run(fmt.Sprintf("step %q rule %s driver %q", step, rule, desc), func(t *testing.T) {
					w.t = t
					w.setups.replace(approving(w, rule, desc))
					r := w.begin(uri)
					if said := strings.Contains(r.Message, "approval before anybody acts"); said != asks || asks && r.ErrorCode != "APPROVAL_UNAVAILABLE" { // the client can ask nobody
						t.Errorf("begin = %s %s, want that a person is to approve: %v", r.ErrorCode, r.Message, asks)
					}
				})
			}
		}
	}
	w.t = t
}

// approving is a setup with the rule, and whose driver mcp has this mode.
func approving(w *world, rule string, desc driver.ApprovalMode) drivers.Setup {
	w.t.Helper()
	d := descriptors["mcp"]
	d.Approval = desc
	w.describes(d)
	return w.ruled(w.under(strings.ReplaceAll(smallTree, "ELICIT", "")), rule)
}

// A closed dialog is neither an approval nor a decline, is not counted, and the next call asks again.
func TestAClosedDialogDecidesNothing(t *testing.T) {
	for name, tc := range map[string]struct{ doc, answer string }{
		"an answer":     {askStep, approves},
		"an approval":   {approvedStep, approves},
		"a run's input": {inputsDoc("In", "who") + "\n## Ask\n\nask\n", `{"who":"Ann"}`},
	} {
		t.Run(name, func(t *testing.T) {
			scene{doc: tc.doc, client: formClient, moves: []move{
				func(p *play) {
					if p.round.Ask == nil {
						calls(toPerson)(p)
					}
				},
				answers(closed, "WAITING_FOR_USER", "dismissed the question", "asked again", "not: declined ("), counted(0), obeyed(true),
				answers(closed, "WAITING_FOR_USER", "dismissed the question"), // the same reply again
				func(p *play) {
					if s := p.state(p.question.Run).Step; len(s.Declines) != 0 || s.DeclineCount != 0 || s.Question.Dismissed != 1 {
						p.t.Errorf("declines = %v, %d, dismissed %d times, want none and once", s.Declines, s.DeclineCount, s.Question.Dismissed)
					}
					p.moment(p.shown, "dismissed")
				},
				calls(toPerson), answers(`{"action":"accept","content":`+tc.answer+`}`, ""),
			}}.play(t)
		})
	}
	dismissed := []move{calls(toPerson), answers(closed, "WAITING_FOR_USER")}
	leftAlone := []move{calls("WAITING_FOR_USER", "3 times in a row")}
	scenes(t, map[string]scene{
		// For a while nobody asks a person who closes it again and again, and the question stays open.
		"of a person who is left alone then": {doc: gatedStep, client: formClient, change: hasPage, moves: slices.Concat(
			dismissed, dismissed, dismissed, slices.Repeat(leftAlone, 5), []move{passes(time.Minute), calls(toPerson), answers(yes, "")})},
		// People close dialogs and answer in the conversation. The record names it as the agent's report.
		"but the agent may pass on what was said instead": {doc: askStep, client: formClient, moves: append(dismissed, sends(approves, ""), solved(driver.AgentReported))},
	})
}

// Work before its approval is recorded and told in the run, on the page and in the
// timeline, and with the approval that comes after it.
func TestWorkBeforeItsApprovalIsRecordedAndTold(t *testing.T) {
	w := withPage(t, nil)
	uri, waits := w.gate(gatedDoc)
	if v := w.view(waits); v.Done != "Nothing is done before you approve." {
		t.Errorf("the page says %q before anything was submitted", v.Done)
	}
	for range 2 { // the same again is not another
		w.code(w.next(uri, solve(waits, `{"ok":true,"note":"already shipped"}`)), "WAITING_FOR_USER")
	}
	contains(t, w.view(waits).Done, "Work for this step was submitted before approval")
	w.decide(waits, "approved", "")
	open := w.next(uri, placeholder(waits))
	w.code(w.next(uri, solve(open, works)), "")
	if a := w.state(runOf(waits)).Evidence[1].Approval; a == nil || a.Premature != 1 {
		t.Errorf("approval = %+v, want that work was submitted before it", a)
	}
	m := w.moment(waits, string(run.Premature))
	contains(t, m.Verdict+string(m.Answer), "before the step was approved", "already shipped")
}

// Also where the form is out when the work comes.
func TestTheFormSaysThatWorkCameBeforeTheApproval(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Client = formClient
	held := map[int64]bool{}
	w.caller.Asked = func(_ run.ID, seq int64) { held[seq] = true }
	w.caller.Holding = func(_ run.ID, seq int64) bool { return held[seq] }
	uri := w.mint(gatedStep)[0]
	r := w.begin(uri)
	first := w.ask(w.nextRound(uri, placeholder(r)), toPerson)
	contains(t, string(first.Params), "Nothing is done before you approve")
	second := w.ask(w.nextRound(uri, solve(r, works)), toPerson)
	contains(t, string(second.Params), "not: Nothing is done", "submitted before approval")
	third := w.ask(w.nextRound(uri, solve(r, `{"ok":true,"note":"again"}`)), toPerson)
	if second.Seq == first.Seq || third.Seq != second.Seq {
		t.Errorf("questions %d, %d and %d, want another one for the work, which continues", first.Seq, second.Seq, third.Seq)
	}
	done := w.reply(w.answer(second, yes))
	w.code(done, "")
	contains(t, done.Message, "is not counted")
}

// Where the step states approval mode user, the agent's text is refused, and the server
// asks the person.
func TestAStatedApprovalModeTakesNoReport(t *testing.T) {
	const yesOrNo = "asks yes or no user_input"
	modelInstead := func(o *choices) { trustsAgent(o); modelFirst(o) }
	onlyOwn := []move{begun("", "own answer")}
	for i, word := range []string{"approved", "rejected"} {
		onlyOwn = append(onlyOwn, sends(`{"confirmation":"`+word+`"}`, "EVIDENCE_NOT_ACCEPTED"), counted(i+1), obeyed(true),
			func(p *play) { contains(p.t, p.shown.NextAction, placeholder(p.shown)) })
	}
	onlyOwn = append(onlyOwn, calls(toPerson), answers(yes, ""), solved(driver.ClientAttested))
	nobody := []move{calls("APPROVAL_UNAVAILABLE"), sends(approves, "EVIDENCE_NOT_ACCEPTED")}
	both := driver.Client{ElicitationForm: true, Sampling: true}
	scenes(t, map[string]scene{
		"yes or no":               {doc: statedStep, client: both, change: trustsAgent, knobs: []string{yesOrNo}, moves: onlyOwn},
		"a form":                  {doc: statedStep, client: both, change: trustsAgent, moves: onlyOwn},
		"no capability":           {doc: statedStep, change: modelInstead, moves: nobody},
		"only a model":            {doc: statedStep, change: modelInstead, client: driver.Client{Sampling: true}, moves: nobody},
		"no stated mode":          {doc: askStep, change: hasPage, moves: []move{sends(`{"confirmation":"fine with me"}`, ""), solved(driver.AgentReported)}},
		"no mode, a confirmation": {doc: askStep, change: hasPage, knobs: []string{yesOrNo}, moves: []move{sends(`{"confirmation":"fine with me"}`, ""), solved(driver.AgentReported)}},
		// A client that can ask nobody gets a link, and what is said there is the step's answer, from whoever had the link.
		"on the page": {doc: statedStep, change: hasPage, knobs: []string{yesOrNo}, moves: []move{
			calls("WAITING_FOR_USER"),
			func(p *play) {
				contains(p.t, fmt.Sprintf("%s %s", p.view(p.shown).Type, p.view(p.shown).Display), "user_input", "ok?")
			},
			onPage("rejected"), calls("USER_DECLINED"), func(p *play) { p.undecline(p.shown) },
			calls("WAITING_FOR_USER"), onPage("approved"), calls(""), solved(driver.LinkHolder),
		}},
	})
}

func TestAPhraseIsTypedForAPersonsOwnAnswer(t *testing.T) {
	doc := with(askStep, `"approval":{"phrase":"go ahead"}`)
	w := withPage(t, nil)
	w.drivers.set("asks yes or no user_input", true)
	uri, waits := w.gate(doc)
	_, err := w.AnswerApproval(t.Context(), w.caller, runOf(waits), secretOf(waits), approval.Answer{Decision: "approved", Digest: w.view(waits).Digest})
	refused(t, err, fault.InvalidArgument)
	w.decide(waits, "approved", "go ahead")
	w.code(w.next(uri, placeholder(waits)), "")
	if a := w.state(runOf(waits)).Evidence[0].Approval; a == nil || !a.Typed {
		t.Errorf("approval = %+v, want one that was typed", a)
	}
	w = withPage(t, nil) // whose driver asks by a form, in which nobody can type it
	_, waits = w.gate(doc)
	if v := w.view(waits); v.Phrase != "go ahead" {
		t.Errorf("in front of a form the page asks for %q", v.Phrase)
	}
}

// payDoc is a step of which the agent chooses what is approved.
var payDoc = "# Pay\n" + shellDoc("Pick", "find it", "pick", "look") +
	"\n## Pay it\n\npay\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"name\":\"pay\",\"approval_mode\":\"user\",\"mcp\":{\"tool_name\":\"pay\",\"to\":\"mallory\",\"note\":\"{{ steps.pick.note }}\"}}}\n```\n"

// long begins a run whose approval is about a note of that many bytes, with a client that has forms.
func (w *world) long(bytes int) (uri string, shown *api.StepReply) {
	w.t.Helper()
	w.caller.Client = formClient
	uris := w.mint(payDoc)
	return uris[1], w.next(uris[0], solve(w.begin(uris[0]), fmt.Sprintf(`{"ok":true,"note":%q}`, "BEGIN"+strings.Repeat("n", bytes)+"END")))
}

func messageOf(t *testing.T, a *director.Ask) string {
	t.Helper()
	var params struct{ Message string }
	if err := json.Unmarshal(a.Params, &params); err != nil {
		t.Fatal(err)
	}
	return params.Message
}

var pageAddress = regexp.MustCompile(`https://kairos\.example/approve/\S+`)

// A person is asked by form however much they are asked about.
func TestALongApprovalStaysInThePersonsForm(t *testing.T) {
	for name, tc := range map[string]struct {
		page  bool
		bytes int
	}{"without a page": {false, 33_000}, "with a page, much longer": {true, 100_000}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *choices) {
				if tc.page {
					hasPage(o)
				}
			})
			uri, shown := w.long(tc.bytes)
			ask := w.ask(w.nextRound(uri, placeholder(shown)), toPerson)
			message := messageOf(t, ask)
			contains(t, message, "mallory", "BEGINnnn", "nnnEND", "left out here", "does not show all")
			if len(message) > 5000 || ask.Linked {
				t.Errorf("the form has %d bytes, and can be answered by a link: %v", len(message), ask.Linked)
			}
			if link := pageAddress.FindString(message); (link != "") != tc.page || !tc.page && !strings.Contains(message, "`kairos runs show "+shown.RunID+" -o json`") {
				t.Errorf("the form says nothing of where to read the whole: %s", message)
			} else if tc.page {
				w.onlyReads(shown, link, message)
			}
			whole := func(m archive.Moment) bool { return strings.Contains(m.Question, strings.Repeat("n", tc.bytes)+"END") }
			if !slices.ContainsFunc(w.timeline(shown).Moments, whole) {
				t.Error("runs show has not the whole")
			}
			declined := w.reply(w.answer(ask, no))
			w.code(declined, "USER_DECLINED")
			again := w.ask(w.nextRound(uri, placeholder(declined)), toPerson) // and not with a link
			w.code(w.reply(w.answer(again, yes)), "")
		})
	}
}

// onlyReads checks the link of a form to the page that takes no answer.
func (w *world) onlyReads(shown *api.StepReply, link, message string) {
	w.t.Helper()
	secret := link[strings.LastIndexByte(link, '/')+1:]
	v, err := w.Approval(w.t.Context(), w.caller, runOf(shown), secret)
	if err != nil || !v.ReadOnly || v.State != approval.Open || !strings.Contains(string(v.Display), "nnnEND") || !strings.Contains(message, v.Digest) {
		w.t.Fatalf("the page is %s, read only %v, digest %s, %v; want the whole of %s", v.State, v.ReadOnly, v.Digest, err, message)
	}
	for _, decision := range []string{"approved", "rejected", "cancel"} {
		_, err := w.AnswerApproval(w.t.Context(), w.caller, runOf(shown), secret, approval.Answer{Decision: decision, Digest: v.Digest})
		refused(w.t, err, fault.InvalidArgument, "only shows")
	}
	if waits, err := w.Waiting(w.t.Context(), w.caller, runOf(shown), 1); err != nil || waits.ApprovalURL != "" || strings.Contains(waits.Message, "approval page") {
		w.t.Errorf("the agent gets the link %q: %s (%v)", waits.ApprovalURL, waits.Message, err)
	}
}

// A client that fails at a long form gets a short one, and a link only if it fails at that, too.
func TestAClientThatFailsAtALongFormGetsAShortOne(t *testing.T) {
	w := withPage(t, nil)
	uri, shown := w.long(8_000)
	ask := w.ask(w.nextRound(uri, placeholder(shown)), toPerson)
	if whole := messageOf(t, ask); len(whole) < 8_000 {
		t.Fatalf("the first form has %d bytes, want the whole", len(whole))
	}
	short := w.ask(w.fails(ask), toPerson)
	if message := messageOf(t, short); len(message) > 5000 || !strings.Contains(message, "does not show all") {
		t.Errorf("the second form has %d bytes: %s", len(message), message)
	}
	r := w.reply(w.fails(short))
	if w.code(r, "WAITING_FOR_USER"); r.ApprovalURL == "" {
		t.Error("a client that cannot show forms at all has no link")
	}
}

// An answer in a form, however unusable, is not replaced by one that comes by a link.
func TestAnUnusableAnswerDoesNotLeadToALink(t *testing.T) {
	w := withPage(t, nil)
	uri, shown := w.long(10)
	round := w.nextRound(uri, placeholder(shown))
	for round.Ask != nil {
		round = w.answer(round.Ask, `{}`)
	}
	w.code(round.Reply, "APPROVAL_UNAVAILABLE")
	if round.Reply.ApprovalURL != "" || !strings.Contains(round.Reply.Message, "invalid") {
		t.Errorf("reply = %+v, want why, and no link", round.Reply)
	}
	w.ask(w.nextRound(uri, placeholder(round.Reply)), toPerson) // is asked again
}
