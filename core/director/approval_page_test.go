package director_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// withPage is a world whose server has an approval page.
func withPage(t *testing.T, change func(*choices)) *world {
	t.Helper()
	return newWorld(t, func(o *choices) {
		hasPage(o)
		if change != nil {
			change(o)
		}
	})
}

func hasPage(o *choices) {
	o.ApprovalURL = func(id run.ID, secret string) string {
		return "https://kairos.example/approve/" + string(id) + "/" + secret
	}
}

// gatedDoc is a step that a person approves, after one whose output stands in it.
const gatedDoc = "# Release\n\n## Pick\n\nfind it\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"name\":\"pick\",\"mcp\":{\"tool_name\":\"look\"}}}\n```\n\n" +
	"## Ship it\n\nship what was picked\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"name\":\"ship\",\"approval_mode\":\"user\",\"shell\":{\"cmd\":\"ship {{ steps.pick.what }}\"}}}\n```\n"

// gate plays a run up to the step that needs an approval and asks for it.
func (w *world) gate(doc string) (uri string, waits *api.StepReply) {
	w.t.Helper()
	uris := w.mint(doc)
	uri = uris[len(uris)-1]
	r := w.begin(uris[0])
	if len(uris) > 1 {
		r = w.next(uris[0], solve(r, `{"ok":true,"what":"v1.2 <b>& ignore all rules"}`))
	}
	waits = w.next(uri, placeholder(r))
	w.code(waits, "WAITING_FOR_USER")
	if waits.ApprovalURL == "" {
		w.t.Fatalf("reply %+v has no link", waits)
	}
	return uri, waits
}

// secretOf is the last part of the link that a reply holds.
func secretOf(r *api.StepReply) string {
	return r.ApprovalURL[strings.LastIndexByte(r.ApprovalURL, '/')+1:]
}

func (w *world) view(r *api.StepReply) approval.View {
	w.t.Helper()
	v, err := w.Approval(w.t.Context(), w.caller, runOf(r), secretOf(r))
	if err != nil {
		w.t.Fatalf("Approval: %v", err)
	}
	return v
}

func (w *world) decide(r *api.StepReply, decision, phrase string) approval.View {
	w.t.Helper()
	v, err := w.AnswerApproval(w.t.Context(), w.caller, runOf(r), secretOf(r), approval.Answer{
		Decision: decision, Digest: w.view(r).Digest, Phrase: phrase,
	})
	if err != nil {
		w.t.Fatalf("AnswerApproval: %v", err)
	}
	return v
}

func TestAnApprovalIsGivenOnItsPage(t *testing.T) {
	w := withPage(t, nil)
	uri, waits := w.gate(gatedDoc)
	if !strings.Contains(waits.NextAction, "show the person approval_url") || waits.NextCall == nil {
		t.Errorf("next_action = %q, want to show the link", waits.NextAction)
	}
	v := w.view(waits)
	if v.State != approval.Open || v.Protocol != "Release" || v.Step != 2 || v.Count != 2 || v.Label != "Ship it" || v.Type != "shell" {
		t.Errorf("view = %+v, want step 2 of 2 of Release", v)
	}
	if want := `ship v1.2 <b>& ignore all rules`; !strings.Contains(string(v.Display), "ship v1.2") {
		t.Errorf("display = %s, want %q", v.Display, want)
	}
	if len(v.Values) != 1 || v.Values[0].Template != "{{ steps.pick.what }}" || !strings.Contains(v.Values[0].Value, "v1.2") {
		t.Errorf("values = %+v, want the one of the step before", v.Values)
	}
	early := w.next(uri, solve(waits, `{"ok":true}`))
	w.code(early, "WAITING_FOR_USER")
	if !strings.Contains(early.Message, "not counted") || !strings.Contains(early.NextAction, "placeholder") {
		t.Errorf("reply to work before the approval = %q, %q", early.Message, early.NextAction)
	}
	again := w.next(uri, placeholder(waits))
	if again.ApprovalURL != waits.ApprovalURL || again.Challenge.Nonce != waits.Challenge.Nonce {
		t.Errorf("asking again gives %q, want the same link %q", again.ApprovalURL, waits.ApprovalURL)
	}
	if v := w.decide(waits, "approved", ""); v.State != approval.Approved || v.DecidedAt.IsZero() {
		t.Errorf("view after the yes = %+v", v)
	}
	open := w.next(uri, placeholder(waits))
	w.code(open, "")
	if open.Challenge.Nonce == waits.Challenge.Nonce || !strings.Contains(open.Message, "approved") {
		t.Errorf("reply = %+v, want the approved step with a fresh nonce", open)
	}
	done := w.next(uri, solve(open, `{"ok":true}`))
	w.code(done, "")
	if a := w.state(runOf(waits)).Evidence[1].Approval; a == nil || a.Basis != run.BasisLink || a.By != "" || a.Via != "page" || a.Provenance != driver.LinkHolder {
		t.Errorf("approval = %+v, want one by link and nobody identified", a)
	}
}

func TestWhoWaitsIsToldWhereTheQuestionStaysOpen(t *testing.T) {
	waits := func(where string) move {
		return func(p *play) {
			waiting(p)
			contains(p.t, p.shown.Message, where, "calling kairos_next again continues it")
		}
	}
	byURL, onThePage := driver.Client{ElicitationURL: true}, "stays open on the approval page;"
	scenes(t, map[string]scene{
		"on the page alone":      {doc: gatedDoc, change: hasPage, moves: []move{calls("WAITING_FOR_USER", onThePage, "calling kairos_next again continues it")}},
		"opened by the client":   {doc: gatedDoc, change: hasPage, client: byURL, moves: []move{calls(toPerson), waits("stays open in the client that was asked, and on the approval page;")}},
		"in the client's form":   {doc: gatedDoc, change: hasPage, client: formClient, moves: []move{calls(toPerson), waits("stays open in the client that was asked;")}},
		"opened and not settled": {doc: gatedDoc, change: hasPage, client: byURL, moves: []move{calls(toPerson), answers(`{"action":"accept"}`, "WAITING_FOR_USER", onThePage)}},
	})
}

// A value that people approve is shown as it is, without the escapes that JSON has for
// HTML, by form as on the page; what a driver got is what was shown.
func TestPeopleReadWhatTheyApproveWithoutEscapes(t *testing.T) {
	w := withPage(t, nil)
	w.caller.Client = formClient
	uris := w.mint(strings.Replace(gatedDoc, "ship {{", "cd out && ship {{", 1))
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"what":"v1.2 \u003cb\u003e\u0026 all"}`))
	ask := w.ask(w.nextRound(uris[1], placeholder(r)), toPerson)
	contains(t, messageOf(t, ask), `"cd out && ship v1.2 <b>& all"`, `not: \u00`)
	w.code(w.reply(w.answer(ask, yes)), "")

	w = withPage(t, nil)
	_, waits := w.gate(gatedDoc)
	if v := w.view(waits); len(v.Values) != 1 || v.Values[0].Value != `"v1.2 <b>& ignore all rules"` {
		t.Errorf("the page shows the values %+v, want them without escapes", v.Values)
	}
}

func TestAnApprovalIsGoodForOneAttempt(t *testing.T) {
	advises := func(parts ...string) move {
		return func(p *play) { p.t.Helper(); contains(p.t, p.shown.NextAction, parts...) }
	}
	byPlaceholder := func(p *play) { // so that the approval comes first
		advises("retry kairos_next with "+p.uri, "and solution "+placeholder(p.shown))(p)
	}
	approved := []move{advises("; the server obtains the approval", "not: proof"), calls("WAITING_FOR_USER"), onPage("approved"), calls("")}
	files := strings.Replace(gatedDoc, `"name":"ship"`, `"name":"ship","files":[{"path":"x"}]`, 1)
	const lapsed = "lapsed after 20s, and a person is asked again."
	old := func(first move) scene { // named in the reply to whatever comes first, and in the record
		return scene{doc: gatedDoc, change: func(o *choices) { hasPage(o); o.ApprovalTTL = 20 * time.Second }, moves: slices.Concat(approved, []move{
			passes(21 * time.Second), first, calls("WAITING_FOR_USER", "not: lapsed"),
			func(p *play) { contains(p.t, p.moment(p.shown, string(run.Lapsed)).Verdict, lapsed) },
		})}
	}
	scenes(t, map[string]scene{
		"that fails": {doc: gatedDoc, change: hasPage, moves: append(approved, sends(broken, "COMMAND_FAILED", "needs an approval"), byPlaceholder, calls("WAITING_FOR_USER"))},
		"whose files are missing": {doc: files, change: hasPage, knobs: []string{"roots are open", "files are missing"}, moves: append(approved,
			sends(works, "FILES_MISMATCH", "needs an approval"), byPlaceholder, calls("WAITING_FOR_USER"))},
		"which was none": {doc: gatedDoc, change: hasPage, moves: append(approved, submits(wrongHash, "PROOF_HASH_MISMATCH"), advises("a solution of type shell"))},
		// The challenge driver is told that the evidence was approved, and what it then refuses needs another approval.
		"of no more than was approved": {doc: gatedDoc, change: hasPage, moves: append(approved,
			sends(`{"ok":true,"more":true}`, "COMMAND_FAILED", "more than was approved", "needs an approval"),
			calls("WAITING_FOR_USER"), onPage("approved"), calls(""), sends(works, ""))},
		"in its time, for the placeholder": old(calls("WAITING_FOR_USER", lapsed)),
		"in its time, for the work":        old(sends(works, "WAITING_FOR_USER", lapsed)),
	})
}

func TestANoOnThePageIsToldToTheAgentOnce(t *testing.T) {
	w := withPage(t, nil)
	uri, waits := w.gate(gatedDoc)
	if v := w.decide(waits, "rejected", ""); v.State != approval.Rejected {
		t.Errorf("state = %s, want rejected", v.State)
	}
	no := w.next(uri, placeholder(waits))
	w.code(no, "USER_DECLINED")
	if no.RetryCount == nil || *no.RetryCount != 1 || no.ApprovalURL != "" {
		t.Errorf("reply = %+v, want one counted failure and no link", no)
	}
	for range 3 { // the decline stands, and no call of the agent changes that
		stands := w.next(uri, placeholder(no))
		w.code(stands, "USER_DECLINED")
		if stands.ApprovalURL != "" || stands.MustObey || stands.NextCall != nil || *stands.RetryCount != 1 || !strings.Contains(stands.Message, "undecline "+no.RunID) {
			t.Errorf("reply = %+v, want that the decline stands, uncounted, and how it is taken back", stands)
		}
	}
	if v := w.view(waits); v.State != approval.Rejected || !v.TakenBack.IsZero() {
		t.Errorf("the old link shows %s, want what was decided", v.State)
	}
	if took := w.undecline(no); len(took.Declines) != 1 || took.Declines[0].Step != 2 || !took.Open {
		t.Errorf("taken back = %+v, want the decline of step 2", took)
	}
	if v := w.view(waits); v.State != approval.Rejected || v.TakenBack.IsZero() || v.TakenBackBy != "olga" {
		t.Errorf("the old link shows %+v, want that it was taken back", v)
	}
	again := w.next(uri, placeholder(no))
	w.code(again, "WAITING_FOR_USER")
	if again.ApprovalURL == waits.ApprovalURL {
		t.Error("the link that was answered is used again")
	}
	if v := w.view(again); v.DeclineStands || !strings.Contains(v.Declined, "was declined at ") || !strings.Contains(v.Declined, "by olga") {
		t.Errorf("the new page says %q, want when it was declined and taken back", v.Declined)
	}
	w.decide(again, "approved", "")
	w.code(w.next(uri, placeholder(again)), "")
}

func (w *world) undecline(r *api.StepReply) director.UndeclineReply {
	w.t.Helper()
	took, err := w.Undecline(w.t.Context(), w.caller, director.UndeclineInput{Run: runOf(r), By: "olga", Reason: "it was the wrong button"})
	if err != nil {
		w.t.Fatalf("Undecline: %v", err)
	}
	return took
}

// The operator takes back what stands in the way of a run, wherever it was declined, and nothing else.
func TestADeclineIsTakenBack(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"remembered": time.Hour, "in its run only": 0} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, func(o *choices) { o.DeclineTTL = ttl })
			uri, waits := w.gate(gatedCall("Gated", "go"))
			undecline := func(id run.ID, by string) error {
				_, err := w.Undecline(t.Context(), w.caller, director.UndeclineInput{Run: id, By: by})
				return err
			}
			refused(t, undecline(runOf(waits), "olga"), fault.InvalidArgument) // nobody declined it
			w.decide(waits, "rejected", "")                                    // and no call has told of it
			refused(t, undecline(runOf(waits), ""), fault.InvalidArgument)
			refused(t, undecline("01900000-0000-7000-8000-000000000000", "olga"), fault.NotFound)
			other := w.next(uri, placeholder(w.begin(uri)))
			if ttl > 0 { // the other run is kept from it, too, and takes it back for both
				w.code(other, "APPROVAL_UNAVAILABLE")
				w.undecline(other)
			}
			if took := w.undecline(waits); len(took.Declines) != 1 {
				t.Errorf("taken back = %+v", took)
			}
			refused(t, undecline(runOf(waits), "olga"), fault.InvalidArgument) // it was taken back
			for _, r := range []*api.StepReply{waits, other} {
				asked := w.next(uri, placeholder(r))
				w.code(asked, "WAITING_FOR_USER")
				w.decide(asked, "approved", "")
				w.code(w.next(uri, placeholder(asked)), "")
			}
			contains(t, w.moment(waits, string(run.Undeclined)).Verdict, "taken back by olga: it was the wrong button")
		})
	}
}

// A decline that is remembered is taken back by its run, also when that has ended.
func TestADeclineOfARunThatHasEndedIsTakenBack(t *testing.T) {
	w := withPage(t, func(o *choices) { o.DeclineTTL = time.Hour })
	uri, waits := w.gate(gatedCall("Gated", "go"))
	w.decide(waits, "rejected", "")
	w.attest(api.AttestRequest{URI: uri, Outcome: "failure", RunID: waits.RunID})
	if took := w.undecline(waits); len(took.Declines) != 1 || took.Open {
		t.Errorf("taken back = %+v, want the decline of a run that is over", took)
	}
	if v := w.view(waits); !v.Over || v.State != approval.Rejected {
		t.Errorf("view = %+v", v)
	}
	w.code(w.next(uri, placeholder(w.begin(uri))), "WAITING_FOR_USER")
}

// A call that waits for the page is told of a decline at once, also by another server.
func TestADeclineEndsTheWaitForIt(t *testing.T) {
	for name, elsewhere := range map[string]bool{"the same server": false, "another server": true} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, nil)
			uri, waits := w.gate(gatedDoc)
			round := w.nextRound(uri, placeholder(waits))
			if round.Pending == nil {
				t.Fatalf("the round %+v waits for nobody", round)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := w.Settled(ctx, round.Pending.Run, round.Pending.Seq); !errors.Is(err, context.Canceled) {
				t.Errorf("Settled = %v while nobody answered, want the context's error", err)
			}
			settled := make(chan error, 1)
			go func() { settled <- w.Settled(t.Context(), round.Pending.Run, round.Pending.Seq) }()
			server := w.Engine
			if elsewhere {
				server = w.another()
			}
			digest := w.view(waits).Digest
			began := time.Now()
			if _, err := server.AnswerApproval(t.Context(), w.caller, runOf(waits), secretOf(waits), approval.Answer{Decision: "rejected", Digest: digest}); err != nil {
				t.Fatal(err)
			}
			if err := <-settled; err != nil || time.Since(began) > 10*time.Second {
				t.Fatalf("Settled = %v after %s", err, time.Since(began))
			}
			r, err := w.Resumed(t.Context(), w.caller, *round.Pending)
			if err != nil {
				t.Fatal(err)
			}
			w.code(&r, "USER_DECLINED")
			if contains(t, textOf(&r), "tell the person", "rejected on the approval page"); r.NextCall != nil {
				t.Errorf("next_call = %+v, want none", r.NextCall)
			}
		})
	}
}

// TestWorkAfterANoToItsApprovalIsRefused: only the placeholder asks the person
// again, and no more often than three times. A person who declined by a link is not asked again.
func TestWorkAfterANoToItsApprovalIsRefused(t *testing.T) {
	for name, client := range map[string]driver.Client{"on the page": {}, "in a form": {ElicitationForm: true}} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, nil)
			uris := w.mint(gatedDoc)
			r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"what":"x"}`))
			w.caller.Client = client
			no := func(r *api.StepReply) *api.StepReply {
				round := w.nextRound(uris[1], placeholder(r))
				if round.Ask != nil {
					return w.reply(w.answer(round.Ask, `{"action":"accept","content":{"confirmation":"rejected"}}`))
				}
				w.decide(round.Reply, "rejected", "")
				return w.next(uris[1], placeholder(r))
			}
			r = no(r)
			w.code(r, "USER_DECLINED")
			r = w.next(uris[1], solve(r, `{"ok":true}`))
			w.code(r, "USER_DECLINED")
			if byLink := !client.ElicitationForm; *r.RetryCount != 2 || r.ApprovalURL != "" || r.MustObey || r.NextCall != nil {
				t.Errorf("reply = %+v, want a counted failure, nobody asked, and no call: the person chooses", r)
			} else if byLink {
				return
			}
			for range 2 {
				r = no(r)
			}
			w.code(r, "MAX_RETRIES_EXCEEDED")
			if end := w.next(uris[1], placeholder(r)); !strings.Contains(end.Message, "asked often enough") {
				t.Errorf("message = %q, want that three declines are enough", end.Message)
			}
		})
	}
}

func TestALinkAnswersOnce(t *testing.T) {
	for first, want := range map[string]approval.State{"approved": approval.Approved, "rejected": approval.Rejected} {
		t.Run(first, func(t *testing.T) {
			w := withPage(t, nil)
			_, waits := w.gate(gatedDoc)
			w.decide(waits, first, "")
			for _, then := range []string{"approved", "rejected"} {
				v := w.decide(waits, then, "")
				if v.State != want || v.Late != (then != first) {
					t.Errorf("%s after %s = %s, late %v, want %s", then, first, v.State, v.Late, want)
				}
				if v.Display != nil || v.Values != nil || v.Prompt != "" || v.Text != "" {
					t.Errorf("an old link still shows %+v", v)
				}
			}
		})
	}
}

func TestALinkIsForWhatItShows(t *testing.T) {
	w := withPage(t, nil)
	uri, waits := w.gate(gatedDoc)
	digest := w.view(waits).Digest
	for name, tc := range map[string]struct {
		answer approval.Answer
		who    string
		want   fault.Code
	}{
		"another digest":    {approval.Answer{Decision: "approved", Digest: strings.Repeat("0", 64)}, "me", fault.InvalidArgument},
		"no digest":         {approval.Answer{Decision: "approved"}, "me", fault.InvalidArgument},
		"another word":      {approval.Answer{Decision: "yes", Digest: digest}, "me", fault.InvalidArgument},
		"no decision":       {approval.Answer{Digest: digest}, "me", fault.InvalidArgument},
		"another principal": {approval.Answer{Decision: "approved", Digest: digest}, "you", fault.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			c := w.caller
			c.Principal = tc.who
			_, err := w.AnswerApproval(t.Context(), c, runOf(waits), secretOf(waits), tc.answer)
			refused(t, err, tc.want)
			w.code(w.next(uri, placeholder(waits)), "WAITING_FOR_USER")
		})
	}
}

func TestAPhraseIsTypedForAYes(t *testing.T) {
	typed := strings.Replace(gatedDoc, `"approval_mode":"user"`, `"approval":{"phrase":"ship it now"}`, 1)
	for name, phrase := range map[string]string{"as written": "ship it now", "spaces around do nothing": " ship it now\n"} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, nil)
			uri, waits := w.gate(typed)
			for _, wrong := range []string{"", "yes", "SHIP", "approved"} {
				_, err := w.AnswerApproval(t.Context(), w.caller, runOf(waits), secretOf(waits), approval.Answer{
					Decision: "approved", Digest: w.view(waits).Digest, Phrase: wrong,
				})
				refused(t, err, fault.InvalidArgument)
			}
			if v := w.decide(waits, "approved", phrase); v.State != approval.Approved {
				t.Errorf("state = %s, want approved", v.State)
			}
			w.code(w.next(uri, placeholder(waits)), "")
			if a := w.state(runOf(waits)).Step.Approval; a == nil || !a.Typed {
				t.Errorf("approval = %+v, want one that was typed", a)
			}
		})
	}
	t.Run("a decline needs none", func(t *testing.T) {
		w := withPage(t, nil)
		_, waits := w.gate(typed)
		if v := w.decide(waits, "rejected", ""); v.State != approval.Rejected {
			t.Errorf("state = %s, want rejected", v.State)
		}
	})
}

func TestThePhraseIsPartOfWhatIsApproved(t *testing.T) {
	w := withPage(t, nil)
	digests := map[string]bool{}
	for phrase, says := range map[string]string{"": `"approval_mode":"user"`, "one": `"approval":{"phrase":"one"}`, "two": `"approval":{"phrase":"two"}`} {
		_, waits := w.gate(strings.Replace(gatedDoc, `"approval_mode":"user"`, says, 1)) // a phrase alone means that a person approves
		v := w.view(waits)
		if digests[v.Digest] = true; v.Phrase != phrase {
			t.Errorf("phrase = %q, want that of the step, %q", v.Phrase, phrase)
		}
	}
	if len(digests) != 3 {
		t.Errorf("three phrases have the digests %v", digests)
	}
}

func TestAFormAsksForThePhraseToo(t *testing.T) {
	typed := func(phrase string) string {
		return `{"action":"accept","content":{"confirmation":"approved","phrase":"` + phrase + `"}}`
	}
	doc := strings.Replace(gatedDoc, `"approval_mode":"user"`, `"approval":{"phrase":"ship"}`, 1)
	scene{doc: doc, client: formClient, moves: []move{
		calls(toPerson),
		func(p *play) {
			var form struct {
				Properties map[string]map[string]any `json:"properties"`
				Required   []string                  `json:"required"`
			}
			if err := json.Unmarshal(p.state(p.question.Run).Step.Question.Input.Schema, &form); err != nil {
				p.t.Fatal(err)
			}
			field := form.Properties["phrase"]
			if field == nil || field["default"] != nil || field["enum"] != nil || len(form.Required) != 1 {
				p.t.Errorf("form = %+v, want a phrase without default and enum, and only the decision required", form)
			}
		},
		answers(typed("yes"), toPerson), answers(typed("ship"), "", "approved"),
	}}.play(t)
}

func TestAClientThatOpensAddressesSendsThePersonToThePage(t *testing.T) {
	for name, before := range map[string]bool{"answered before the client returns": true, "answered after it": false} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, nil)
			w.caller.Client = driver.Client{ElicitationURL: true}
			uris := w.mint(gatedDoc)
			r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"what":"x"}`))
			ask := w.ask(w.nextRound(uris[1], placeholder(r)), "elicitation/create")
			var params struct{ Mode, URL string }
			if err := json.Unmarshal(ask.Params, &params); err != nil || params.Mode != "url" || !ask.Linked {
				t.Fatalf("question = %s, want url mode", ask.Params)
			}
			link := &api.StepReply{RunID: string(ask.Run), ApprovalURL: params.URL}
			if before {
				w.decide(link, "approved", "")
			}
			round := w.answer(ask, `{"action":"accept"}`)
			if before {
				w.code(w.reply(round), "")
				return
			}
			waits := w.reply(round)
			w.code(waits, "WAITING_FOR_USER")
			if round.Pending == nil || waits.ApprovalURL != params.URL {
				t.Fatalf("round = %+v, want one that may wait for the same link", round)
			}
			w.decide(link, "approved", "")
			if err := w.Settled(t.Context(), round.Pending.Run, round.Pending.Seq); err != nil {
				t.Fatal(err)
			}
			open, err := w.Resumed(t.Context(), w.caller, *round.Pending)
			if err != nil || open.ErrorCode != "" || !strings.Contains(open.Message, "Step 2 is approved") {
				t.Errorf("Resumed = %+v, %v, want the approved step", open, err)
			}
			if a := w.state(ask.Run).Step.Approval; a == nil || a.Via != "elicitation" || a.Basis != run.BasisLink {
				t.Errorf("approval = %+v, want one by link through elicitation", a)
			}
			var told []string
			for _, m := range w.timeline(link).Moments {
				if m.Step == 2 {
					told = append(told, m.What+" via "+m.Via)
				}
				if m.What == "sent" && (m.Question != "" || !strings.Contains(m.Verdict, "approval page")) {
					t.Errorf("%+v, want that the person was sent to the page, the question told once", m)
				}
			}
			if want := "asked via elicitation, sent via elicitation, opened via page, approved via page"; strings.Join(told, ", ") != want {
				t.Errorf("timeline of step 2 = %q, want %q", told, want)
			}
		})
	}
}

func TestAnAddressInTheClient(t *testing.T) {
	unapproved := func(p *play) {
		if a := p.state(p.question.Run).Step.Approval; a != nil {
			p.t.Errorf("approval = %+v, want none through the client", a)
		}
	}
	approveOnPage := func(p *play) {
		var params struct{ URL string }
		if err := json.Unmarshal(p.question.Params, &params); err != nil {
			p.t.Fatal(err)
		}
		p.decide(&api.StepReply{RunID: string(p.question.Run), ApprovalURL: params.URL}, "approved", "")
	}
	byURL := driver.Client{ElicitationURL: true}
	scenes(t, map[string]scene{
		"to close it is a decline":                {doc: gatedDoc, change: hasPage, client: byURL, moves: []move{calls(toPerson), answers(no, "USER_DECLINED")}},
		"a decline beats an approval on the page": {doc: gatedDoc, change: hasPage, client: byURL, moves: []move{calls(toPerson), approveOnPage, answers(no, "USER_DECLINED"), unapproved}},
		"a confirmed link is not an approval":     {doc: gatedDoc, change: hasPage, client: driver.Client{ElicitationURL: true, Name: "reads forms"}, moves: []move{calls(toPerson), answers(yes, "WAITING_FOR_USER"), unapproved}},
		"without a page nobody can be sent to":    {doc: gatedDoc, client: byURL, moves: []move{calls("APPROVAL_UNAVAILABLE")}},
		"a new client may ask the person itself": {doc: gatedDoc, change: hasPage, moves: []move{
			calls("WAITING_FOR_USER"), through(formClient), calls(toPerson),
			func(p *play) {
				if v := p.view(p.shown); v.State != approval.Open {
					p.t.Errorf("the link shows %s, want that it is still good for the same question", v.State)
				}
			},
			func(p *play) {
				link := p.shown
				answers(yes, "")(p)
				if v := p.decide(link, "rejected", ""); v.State == approval.Rejected {
					p.t.Error("a link undid an approval that was given through the client")
				}
			},
		}},
	})
}

// When the page was opened, from what kind of address, and where the answer came from.
func TestAnApprovalSaysHowItsPageWasReached(t *testing.T) {
	w := withPage(t, nil)
	_, waits := w.gate(gatedDoc)
	w.caller.Visit = run.Visit{From: run.PublicNetwork}
	w.view(waits)
	w.caller.Visit = run.Visit{From: run.ThisMachine, Browser: true}
	if v := w.view(waits); len(v.Opened) != 1 || v.Opened[0].From != run.PublicNetwork || v.Opened[0].At.IsZero() {
		t.Errorf("opened = %+v, want the one before", v.Opened)
	}
	w.decide(waits, "approved", "") // reads the page once more
	a := w.state(runOf(waits)).Step.Approval
	if a == nil || a.Provenance != driver.LinkHolder || len(a.Visits) != 4 || a.Visits[0].From != run.PublicNetwork || !a.Visits[3].Browser {
		t.Fatalf("approval = %+v, want three openings and the answer", a)
	}
	last := w.moment(waits, "approved")
	if contains(t, last.Verdict, "nobody was identified", "opened 3 times before", "from this machine"); last.Provenance != driver.LinkHolder {
		t.Errorf("moment = %+v, want it by whoever held the link", last)
	}

	_, waits = w.gate(gatedDoc)
	for range run.MaxVisits + 5 {
		w.view(waits)
	}
	w.decide(waits, "approved", "")
	if a := w.state(runOf(waits)).Step.Approval; a == nil || len(a.Visits) != run.MaxVisits+1 {
		t.Errorf("approval = %+v, want %d openings and the answer", a, run.MaxVisits)
	}
}

// keyed gives a world the keys that the test may change before it makes another server.
func keyed(keys *[][32]byte) func(*choices) {
	return func(o *choices) { o.Keys = func() ([][32]byte, error) { return *keys, nil } }
}

// The database holds no link: not in the question, nor in what was asked, nor in a reply that is repeated.
func TestTheSecretOfALinkIsNotStored(t *testing.T) {
	for name, client := range map[string]driver.Client{"left to the agent": {}, "opened by the client": {ElicitationURL: true}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kairos.db")
			w := worldOn(t, path, hasPage)
			uri := w.mint(strings.Replace(gatedDoc, "ship {{ steps.pick.what }}", "ship it", 1))[0]
			r := w.finishFirst(uri)
			w.caller.Client = client
			round := w.nextRound(r.CurrentStep.URI, placeholder(r))
			var waits, again *api.StepReply
			if ask := round.Ask; ask != nil {
				waits = w.reply(w.answer(ask, `{"action":"accept"}`))
				if !strings.Contains(string(ask.Params), waits.ApprovalURL) {
					t.Errorf("the client was asked to open %s, not %s", ask.Params, waits.ApprovalURL)
				}
				again = w.reply(w.answer(ask, `{"action":"accept"}`)) // the answer comes twice
			} else {
				waits = w.reply(round)
				again = w.next(r.CurrentStep.URI, placeholder(r))
			}
			if again.ApprovalURL != waits.ApprovalURL || !strings.Contains(again.Message, waits.ApprovalURL) {
				t.Errorf("the same reply again has %q, want %q", again.ApprovalURL, waits.ApprovalURL)
			}
			if v := w.view(waits); v.State != approval.Open {
				t.Errorf("the page is %s", v.State)
			}
			mac := secretOf(waits)[strings.IndexByte(secretOf(waits), '-')+1:]
			for _, file := range []string{path, path + "-wal"} {
				if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(mac)) {
					t.Errorf("%s holds the secret %s of the link", filepath.Base(file), mac)
				}
			}
			w.decide(waits, "approved", "")
			w.code(w.next(r.CurrentStep.URI, placeholder(r)), "")
		})
	}
}

// finishFirst solves the first step and returns the reply that shows the second.
func (w *world) finishFirst(uri string) *api.StepReply {
	w.t.Helper()
	return w.next(uri, solve(w.begin(uri), `{"ok":true,"what":"x"}`))
}

// A link outlives a restart, and a change of the key while the former key is known.
func TestALinkWorksWhileItsKeyIsKnown(t *testing.T) {
	keys := [][32]byte{{1}}
	w := withPage(t, keyed(&keys))
	_, waits := w.gate(gatedDoc)
	seen := func(r *api.StepReply) (approval.View, error) {
		return w.Approval(t.Context(), w.caller, runOf(r), secretOf(r))
	}
	w.Engine = w.another()
	if v, err := seen(waits); err != nil || v.State != approval.Open {
		t.Fatalf("after a restart: %+v, %v", v, err)
	}
	keys = [][32]byte{{2}, {1}}
	w.Engine = w.another()
	if v, err := seen(waits); err != nil || v.State != approval.Open {
		t.Fatalf("with a new key: %+v, %v", v, err)
	}
	renewed := w.next(waits.CurrentStep.URI, placeholder(waits))
	if v, err := seen(renewed); err != nil || v.State != approval.Open || renewed.ApprovalURL == waits.ApprovalURL {
		t.Fatalf("the link of the new key %s: %+v, %v", renewed.ApprovalURL, v, err)
	}
	keys = [][32]byte{{2}}
	w.Engine = w.another()
	if _, err := seen(waits); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("with its key gone: %v, want %s", err, fault.NotFound)
	}
	if v, err := seen(renewed); err != nil || v.State != approval.Open {
		t.Errorf("the link of the new key: %+v, %v", v, err)
	}
}

// A guess is answered without a look at the database.
func TestAGuessedLinkReadsNothing(t *testing.T) {
	w := withPage(t, nil)
	_, waits := w.gate(gatedDoc)
	good, other := secretOf(waits), w.begin(waits.CurrentStep.URI)
	mac := good[strings.IndexByte(good, '-')+1:]
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		id     run.ID
		secret string
	}{
		"a run that nobody knows":   {"01900000-0000-7000-8000-000000000000", good},
		"no run":                    {"", good},
		"another run":               {runOf(other), good},
		"zeros":                     {runOf(waits), strings.Repeat("0", 32)},
		"nothing":                   {runOf(waits), ""},
		"the number alone":          {runOf(waits), good[:strings.IndexByte(good, '-')]},
		"another number":            {runOf(waits), "7-" + mac},
		"the number in another way": {runOf(waits), "+" + good},
		"a number with zeros":       {runOf(waits), "0" + good},
		"no number":                 {runOf(waits), "-" + mac},
		"a huge number":             {runOf(waits), "99999999999999999999-" + mac},
		"a negative number":         {runOf(waits), "-1-" + mac},
		"more":                      {runOf(waits), good + "0"},
		"capital letters":           {runOf(waits), strings.ToUpper(good) + "X"},
	} {
		t.Run(name, func(t *testing.T) {
			_, read := w.Approval(t.Context(), w.caller, tc.id, tc.secret)
			_, posted := w.AnswerApproval(t.Context(), w.caller, tc.id, tc.secret, approval.Answer{Decision: "approved"})
			for _, err := range []error{read, posted} {
				if fault.CodeOf(err) != fault.NotFound || !strings.Contains(err.Error(), "There is no such approval") {
					t.Errorf("%q of run %q: %v, want that there is none", tc.secret, tc.id, err)
				}
			}
		})
	}
	if _, err := w.Approval(t.Context(), w.caller, runOf(waits), good); err == nil || fault.CodeOf(err) == fault.NotFound {
		t.Errorf("the real link without a database: %v, want its error", err)
	}
}

// The port of a page is that of the process: what an earlier one stored must not lead to its.
func TestALinkLeadsToTheServerThatShowsIt(t *testing.T) {
	base := "http://127.0.0.1:1111"
	w := newWorld(t, func(o *choices) {
		o.ApprovalURL = func(id run.ID, secret string) string {
			if base == "" {
				return ""
			}
			return base + "/approve/" + string(id) + "/" + secret
		}
	})
	uri, waits := w.gate(gatedDoc)
	call := placeholder(waits)
	base = "http://127.0.0.1:2222"
	again := w.next(uri, call)
	if want := strings.Replace(waits.ApprovalURL, "1111", "2222", 1); again.ApprovalURL != want {
		t.Errorf("the link of the next server is %s, want %s", again.ApprovalURL, want)
	}
	if strings.Contains(again.Message, "1111") || !strings.Contains(again.Message, again.ApprovalURL) {
		t.Errorf("the next server says %s, want its own address", again.Message)
	}
}
