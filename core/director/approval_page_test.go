package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
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
	r, err := w.stored(runOf(waits))
	if err != nil {
		t.Fatal(err)
	}
	if a := r.Evidence[1].Approval; a == nil || a.Basis != run.BasisLink || a.By != "" || a.Via != "page" || a.Provenance != driver.LinkHolder {
		t.Errorf("approval = %+v, want one by link and nobody identified", a)
	}
}

func TestWhoWaitsIsToldWhereTheQuestionStaysOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		client driver.Client
		where  string
	}{
		"on the page alone":      {driver.Client{}, "stays open on the approval page "},
		"opened by the client":   {driver.Client{ElicitationURL: true}, "stays open in the client that was asked, and on the approval page "},
		"in the client's form":   {driver.Client{ElicitationForm: true}, "stays open in the client that was asked;"},
		"opened and not settled": {driver.Client{ElicitationURL: true}, "stays open on the approval page "},
	} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, nil)
			uris := w.mint(gatedDoc)
			r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"what":"x"}`))
			w.caller.Client = tc.client
			round := w.nextRound(uris[1], placeholder(r))
			reply := round.Reply
			switch {
			case round.Ask != nil && name == "opened and not settled":
				reply = w.reply(w.answer(round.Ask, `{"action":"accept"}`))
			case round.Ask != nil:
				waits, err := w.Waiting(t.Context(), w.caller, round.Ask.Run, round.Ask.Seq)
				if err != nil {
					t.Fatal(err)
				}
				reply = &waits
			}
			w.code(reply, "WAITING_FOR_USER")
			if !strings.Contains(reply.Message, tc.where+reply.ApprovalURL) || !strings.Contains(reply.Message, "calling kairos_next again continues it") {
				t.Errorf("message = %q, want where the question stays open, and that calling again continues it", reply.Message)
			}
		})
	}
}

// A value that people approve is shown as it is, without the escapes that JSON has for
// HTML, by form as on the page; what a driver got is what was shown.
func TestPeopleReadWhatTheyApproveWithoutEscapes(t *testing.T) {
	w := withPage(t, nil)
	w.caller.Client = driver.Client{ElicitationForm: true}
	uris := w.mint(strings.Replace(gatedDoc, "ship {{", "cd out && ship {{", 1))
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"what":"v1.2 \u003cb\u003e\u0026 all"}`))
	ask := w.ask(w.nextRound(uris[1], placeholder(r)), "elicitation/create")
	var params struct{ Message string }
	if err := json.Unmarshal(ask.Params, &params); err != nil {
		t.Fatal(err)
	}
	if want := `cd out && ship v1.2 <b>& all`; !strings.Contains(params.Message, `"`+want+`"`) || strings.Contains(params.Message, `\u00`) {
		t.Errorf("the form says %q, want %q without escapes", params.Message, want)
	}
	open := w.reply(w.answer(ask, `{"action":"accept","content":{"confirmation":"approved"}}`))
	w.code(open, "")

	w = withPage(t, nil)
	_, waits := w.gate(gatedDoc)
	if v := w.view(waits); len(v.Values) != 1 || v.Values[0].Value != `"v1.2 <b>& ignore all rules"` {
		t.Errorf("the page shows the values %+v, want them without escapes", v.Values)
	}
}

// TestAStepThatWaitsForItsApprovalSaysSo: the agent has still to do the work,
// so the server does not obtain the proof.
func TestAStepThatWaitsForItsApprovalSaysSo(t *testing.T) {
	w := withPage(t, nil)
	uris := w.mint(gatedDoc)
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"what":"x"}`))
	if !strings.Contains(r.NextAction, "; the server obtains the approval") || strings.Contains(r.NextAction, "proof") {
		t.Errorf("next_action = %q, want that the server obtains the approval, and not the proof", r.NextAction)
	}
}

// TestAFailedAttemptAsksForItsApprovalFirst: the yes was for that attempt, and
// work that nobody approved would not be counted.
func TestAFailedAttemptAsksForItsApprovalFirst(t *testing.T) {
	files := strings.Replace(gatedDoc, `"name":"ship"`, `"name":"ship","files":[{"path":"x"}]`, 1)
	for code, tc := range map[string]struct{ doc, evidence string }{
		"COMMAND_FAILED": {gatedDoc, `{"ok":false}`},
		"FILES_MISMATCH": {files, `{"ok":true}`},
	} {
		t.Run(code, func(t *testing.T) {
			w := withPage(t, nil)
			w.drivers.set("roots are open", true)
			w.drivers.set("files are missing", true)
			uri, waits := w.gate(tc.doc)
			w.decide(waits, "approved", "")
			open := w.next(uri, placeholder(waits))
			r := w.next(uri, solve(open, tc.evidence))
			w.code(r, code)
			want := `and solution ` + placeholder(r)
			if !strings.HasPrefix(r.NextAction, "retry kairos_next with "+uri) || !strings.Contains(r.NextAction, want) || !strings.Contains(r.Message, "needs an approval") {
				t.Errorf("message = %q, next_action = %q, want %q, so that the approval comes first", r.Message, r.NextAction, want)
			}
			w.code(w.next(uri, placeholder(r)), "WAITING_FOR_USER")
		})
	}
	t.Run("kept", func(t *testing.T) { // nothing was attempted, so the yes still holds
		w := withPage(t, nil)
		uri, waits := w.gate(gatedDoc)
		w.decide(waits, "approved", "")
		open := w.next(uri, placeholder(waits))
		r := w.next(uri, strings.Replace(solve(open, `{"ok":true}`), open.Challenge.ProofHash, "another", 1))
		w.code(r, "PROOF_HASH_MISMATCH")
		if !strings.Contains(r.NextAction, "a solution of type shell") {
			t.Errorf("next_action = %q, want the solution itself", r.NextAction)
		}
	})
}

// TestAYesThatIsTooOldIsNamed: in the reply to whatever comes first, and in the record.
func TestAYesThatIsTooOldIsNamed(t *testing.T) {
	for name, submit := range map[string]func(r *api.StepReply) string{
		"to the placeholder": placeholder,
		"to the work":        func(r *api.StepReply) string { return solve(r, `{"ok":true}`) },
	} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, func(o *choices) { o.ApprovalTTL = 20 * time.Second })
			uri, waits := w.gate(gatedDoc)
			w.decide(waits, "approved", "")
			open := w.next(uri, placeholder(waits))
			w.machine.Pass(21 * time.Second)
			r := w.next(uri, submit(open))
			w.code(r, "WAITING_FOR_USER")
			const want = "lapsed after 20s, and a person is asked again."
			if !strings.Contains(r.Message, want) {
				t.Errorf("message = %q, want that the approval lapsed", r.Message)
			}
			if again := w.next(uri, placeholder(r)); strings.Contains(again.Message, "lapsed") {
				t.Errorf("message = %q, want it told once", again.Message)
			}
			line, err := w.Timeline(t.Context(), w.caller, runOf(r))
			if err != nil {
				t.Fatal(err)
			}
			var told int
			for _, m := range line.Moments {
				if m.What == string(run.Lapsed) && strings.Contains(m.Verdict, want) {
					told++
				}
			}
			if told != 1 {
				t.Errorf("moments = %+v, want one that tells that the approval lapsed", line.Moments)
			}
		})
	}
}

// TestMoreThanWasApprovedGoesToThePersonAgain: the challenge driver is told that
// the evidence was approved, and what it then refuses needs another approval.
func TestMoreThanWasApprovedGoesToThePersonAgain(t *testing.T) {
	w := withPage(t, nil)
	uris := w.mint(gatedDoc)
	first := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"more":true,"what":"x"}`))
	w.code(first, "") // nobody approved anything there
	waits := w.next(uris[1], placeholder(first))
	w.decide(waits, "approved", "")
	r := w.next(uris[1], solve(w.next(uris[1], placeholder(waits)), `{"ok":true,"more":true}`))
	w.code(r, "COMMAND_FAILED")
	if !strings.Contains(r.Message, "more than was approved") || !strings.Contains(r.Message, "needs an approval") {
		t.Errorf("message = %q, want why, and that the next attempt is approved first", r.Message)
	}
	again := w.next(uris[1], placeholder(r))
	w.code(again, "WAITING_FOR_USER")
	w.decide(again, "approved", "")
	w.code(w.next(uris[1], solve(w.next(uris[1], placeholder(again)), `{"ok":true}`)), "")
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
			if err := undecline(runOf(waits), "olga"); fault.CodeOf(err) != fault.InvalidArgument {
				t.Errorf("Undecline of what nobody declined = %v", err)
			}
			w.decide(waits, "rejected", "") // and no call has told of it
			if err := undecline(runOf(waits), ""); fault.CodeOf(err) != fault.InvalidArgument {
				t.Errorf("Undecline by nobody = %v", err)
			}
			if err := undecline("01900000-0000-7000-8000-000000000000", "olga"); fault.CodeOf(err) != fault.NotFound {
				t.Errorf("Undecline of a run that nobody knows = %v", err)
			}
			other := w.next(uri, placeholder(w.begin(uri)))
			if ttl > 0 { // the other run is kept from it, too, and takes it back for both
				w.code(other, "APPROVAL_UNAVAILABLE")
				w.undecline(other)
			}
			if took := w.undecline(waits); len(took.Declines) != 1 {
				t.Errorf("taken back = %+v", took)
			}
			if err := undecline(runOf(waits), "olga"); fault.CodeOf(err) != fault.InvalidArgument {
				t.Errorf("Undecline of what was taken back = %v", err)
			}
			for _, r := range []*api.StepReply{waits, other} {
				asked := w.next(uri, placeholder(r))
				w.code(asked, "WAITING_FOR_USER")
				w.decide(asked, "approved", "")
				w.code(w.next(uri, placeholder(asked)), "")
			}
			line, err := w.Timeline(t.Context(), w.caller, runOf(waits))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(line.Moments, func(m archive.Moment) bool {
				return m.What == string(run.Undeclined) && strings.Contains(m.Verdict, "taken back by olga: it was the wrong button")
			}) {
				t.Errorf("moments = %+v, want who took it back, and why", line.Moments)
			}
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
			if r.NextCall != nil || !strings.Contains(r.NextAction, "tell the person") || !strings.Contains(r.Message, "rejected on the approval page") {
				t.Errorf("reply = %+v, want that it was declined and what can be done", r)
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
			if byLink := !client.ElicitationForm; *r.RetryCount != 2 || r.ApprovalURL != "" || (r.NextCall == nil) != byLink {
				t.Errorf("reply = %+v, want a counted failure, nobody asked, and the call that asks them again in their form", r)
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
	for name, tc := range map[string]struct {
		answer approval.Answer
		secret string
		who    string
		want   fault.Code
	}{
		"another digest":    {approval.Answer{Decision: "approved", Digest: strings.Repeat("0", 64)}, "", "", fault.InvalidArgument},
		"no digest":         {approval.Answer{Decision: "approved"}, "", "", fault.InvalidArgument},
		"another word":      {approval.Answer{Decision: "yes", Digest: "right"}, "", "", fault.InvalidArgument},
		"no decision":       {approval.Answer{Digest: "right"}, "", "", fault.InvalidArgument},
		"a guessed secret":  {approval.Answer{Decision: "approved", Digest: "right"}, strings.Repeat("0", 32), "", fault.NotFound},
		"an empty secret":   {approval.Answer{Decision: "approved", Digest: "right"}, "-", "", fault.NotFound},
		"another principal": {approval.Answer{Decision: "approved", Digest: "right"}, "", "you", fault.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, nil)
			uri, waits := w.gate(gatedDoc)
			if tc.answer.Digest == "right" {
				tc.answer.Digest = w.view(waits).Digest
			}
			secret, c := secretOf(waits), w.caller
			if tc.secret != "" {
				secret = strings.Trim(tc.secret, "-")
			}
			if tc.who != "" {
				c.Principal = tc.who
			}
			_, err := w.AnswerApproval(t.Context(), c, runOf(waits), secret, tc.answer)
			if fault.CodeOf(err) != tc.want {
				t.Errorf("AnswerApproval = %v, want %s", err, tc.want)
			}
			w.code(w.next(uri, placeholder(waits)), "WAITING_FOR_USER")
		})
	}
}

func TestApproversAnswerForOthers(t *testing.T) {
	w := withPage(t, func(o *choices) { o.Approvers = []string{"boss"} })
	uri, waits := w.gate(gatedDoc)
	boss := access.Caller{Principal: "boss", Space: "user:test:boss"}
	v, err := w.AnswerApproval(t.Context(), boss, runOf(waits), secretOf(waits), approval.Answer{
		Decision: "approved", Digest: w.view(waits).Digest, By: "boss",
	})
	if err != nil || v.State != approval.Approved || v.By != "boss" {
		t.Fatalf("AnswerApproval = %+v, %v, want approved by boss", v, err)
	}
	w.code(w.next(uri, placeholder(waits)), "")
	r, err := w.stored(runOf(waits))
	if err != nil {
		t.Fatal(err)
	}
	if a := r.Step.Approval; a == nil || a.Basis != run.BasisPage || a.By != "boss" {
		t.Errorf("approval = %+v, want one of the page by boss", a)
	}
}

func TestALinkExpires(t *testing.T) {
	w := withPage(t, nil)
	uri, waits := w.gate(gatedDoc)
	w.machine.Pass(61 * time.Minute)
	if v := w.decide(waits, "approved", ""); v.State != approval.Expired {
		t.Errorf("state = %s, want expired", v.State)
	}
	fresh := w.next(uri, placeholder(waits))
	w.code(fresh, "WAITING_FOR_USER")
	if fresh.ApprovalURL == waits.ApprovalURL {
		t.Error("an expired link is given out again")
	}
	if v := w.view(waits); v.State != approval.Replaced {
		t.Errorf("the old link shows %s, want replaced", v.State)
	}
}

func TestAPhraseIsTypedForAYes(t *testing.T) {
	typed := strings.Replace(gatedDoc, `"approval_mode":"user"`, `"approval_mode":"user","approval_phrase":"ship it now"`, 1)
	for name, tc := range map[string]struct {
		doc, phrase string
		typed       bool
	}{
		"of the step":              {typed, "ship it now", false},
		"of the step, by config":   {typed, "ship it now", true},
		"the step's name":          {gatedDoc, "ship", true},
		"spaces around do nothing": {gatedDoc, " ship\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, func(o *choices) { o.Settings.Approval.Typed = tc.typed })
			uri, waits := w.gate(tc.doc)
			for _, wrong := range []string{"", "yes", "SHIP", "approved"} {
				_, err := w.AnswerApproval(t.Context(), w.caller, runOf(waits), secretOf(waits), approval.Answer{
					Decision: "approved", Digest: w.view(waits).Digest, Phrase: wrong,
				})
				if fault.CodeOf(err) != fault.InvalidArgument {
					t.Errorf("an approval with %q = %v, want it refused", wrong, err)
				}
			}
			if v := w.decide(waits, "approved", tc.phrase); v.State != approval.Approved {
				t.Errorf("state = %s, want approved", v.State)
			}
			w.code(w.next(uri, placeholder(waits)), "")
			r, err := w.stored(runOf(waits))
			if err != nil || r.Step.Approval == nil || !r.Step.Approval.Typed {
				t.Errorf("approval = %+v, %v, want one that was typed", r.Step.Approval, err)
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

func TestAPhraseAloneMeansThatAPersonApproves(t *testing.T) {
	w := withPage(t, nil)
	_, waits := w.gate(strings.Replace(gatedDoc, `"approval_mode":"user"`, `"approval_phrase":"ship it now"`, 1))
	if v := w.view(waits); v.Phrase != "ship it now" {
		t.Errorf("phrase = %q, want that of the step", v.Phrase)
	}
}

func TestThePhraseIsPartOfWhatIsApproved(t *testing.T) {
	w := withPage(t, nil)
	digests := map[string]bool{}
	for _, says := range []string{`"approval_mode":"user"`, `"approval_phrase":"one"`, `"approval_phrase":"two"`} {
		_, waits := w.gate(strings.Replace(gatedDoc, `"approval_mode":"user"`, says, 1))
		digests[w.view(waits).Digest] = true
	}
	if len(digests) != 3 {
		t.Errorf("three phrases have the digests %v", digests)
	}
}

func TestAFormAsksForThePhraseToo(t *testing.T) {
	w := newWorld(t, func(o *choices) { o.Settings.Approval.Typed = true })
	w.caller.Client = driver.Client{ElicitationForm: true}
	uris := w.mint(gatedDoc)
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"what":"x"}`))
	ask := w.ask(w.nextRound(uris[1], placeholder(r)), "elicitation/create")
	q, err := w.stored(ask.Run)
	if err != nil {
		t.Fatal(err)
	}
	var form struct {
		Properties map[string]map[string]any `json:"properties"`
		Required   []string                  `json:"required"`
	}
	if err := json.Unmarshal(q.Step.Question.Input.Schema, &form); err != nil {
		t.Fatal(err)
	}
	field := form.Properties["phrase"]
	if field == nil || field["default"] != nil || field["enum"] != nil || len(form.Required) != 1 {
		t.Errorf("form = %+v, want a phrase without default and enum, and only the decision required", form)
	}
	second := w.ask(w.answer(ask, `{"action":"accept","content":{"confirmation":"approved","phrase":"yes"}}`), "elicitation/create")
	open := w.reply(w.answer(second, `{"action":"accept","content":{"confirmation":"approved","phrase":"ship"}}`))
	w.code(open, "")
	if !strings.Contains(open.Message, "approved") {
		t.Errorf("message = %q, want that it is approved", open.Message)
	}
}

func TestAReviewTypesNoPhrase(t *testing.T) {
	doc := strings.Replace(approvedStep, `"approval_mode":"user"`, `"approval_mode":"user","approval_phrase":"go"`, 1)
	w := newWorld(t, nil)
	w.caller.Client = driver.Client{Sampling: true}
	uri := w.mint(doc)[0]
	w.code(w.begin(uri), "APPROVAL_UNAVAILABLE")
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
			kept, err := w.stored(ask.Run)
			if a := kept.Step.Approval; err != nil || a == nil || a.Via != "elicitation" || a.Basis != run.BasisLink {
				t.Errorf("approval = %+v, %v, want one by link through elicitation", a, err)
			}
			line, err := w.Timeline(t.Context(), w.caller, ask.Run)
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			for _, m := range line.Moments {
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

func TestClosingTheAddressInTheClientIsANo(t *testing.T) {
	w := withPage(t, nil)
	w.caller.Client = driver.Client{ElicitationURL: true}
	uris := w.mint(gatedDoc)
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"what":"x"}`))
	ask := w.ask(w.nextRound(uris[1], placeholder(r)), "elicitation/create")
	w.code(w.reply(w.answer(ask, `{"action":"decline"}`)), "USER_DECLINED")
}

func TestANoInTheClientBeatsAYesOnThePage(t *testing.T) {
	w := withPage(t, nil)
	w.caller.Client = driver.Client{ElicitationURL: true}
	uris := w.mint(gatedDoc)
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"what":"x"}`))
	ask := w.ask(w.nextRound(uris[1], placeholder(r)), "elicitation/create")
	var params struct{ URL string }
	if err := json.Unmarshal(ask.Params, &params); err != nil {
		t.Fatal(err)
	}
	w.decide(&api.StepReply{RunID: string(ask.Run), ApprovalURL: params.URL}, "approved", "")
	no := w.reply(w.answer(ask, `{"action":"decline"}`))
	w.code(no, "USER_DECLINED")
	if kept, err := w.stored(ask.Run); err != nil || kept.Step.Approval != nil {
		t.Errorf("approval = %+v, %v, want none after the no", kept.Step.Approval, err)
	}
}

func TestAYesToAnAddressIsNotAYes(t *testing.T) {
	w := withPage(t, nil)
	w.caller.Client = driver.Client{ElicitationURL: true, Name: "reads forms"}
	uris := w.mint(gatedDoc)
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"what":"x"}`))
	ask := w.ask(w.nextRound(uris[1], placeholder(r)), "elicitation/create")
	w.code(w.reply(w.answer(ask, `{"action":"accept","content":{"confirmation":"approved"}}`)), "WAITING_FOR_USER")
	if kept, err := w.stored(ask.Run); err != nil || kept.Step.Approval != nil {
		t.Errorf("approval = %+v, %v, want none through the client", kept.Step.Approval, err)
	}
}

func TestWhoWaitsHearsOfTheAnswerAtOnce(t *testing.T) {
	w := withPage(t, nil)
	uri, waits := w.gate(gatedDoc)
	round := w.nextRound(uri, placeholder(waits))
	if round.Pending == nil {
		t.Fatal("a second call may not wait")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Settled(ctx, round.Pending.Run, round.Pending.Seq); !errors.Is(err, context.Canceled) {
		t.Errorf("Settled = %v while nobody answered, want the context's error", err)
	}
	heard := make(chan error, 1)
	go func() { heard <- w.Settled(t.Context(), round.Pending.Run, round.Pending.Seq) }()
	w.decide(waits, "rejected", "")
	select {
	case err := <-heard:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("nobody heard of the answer")
	}
	no, err := w.Resumed(t.Context(), w.caller, *round.Pending)
	if err != nil || no.ErrorCode != "USER_DECLINED" {
		t.Errorf("Resumed = %+v, %v, want the no", no, err)
	}
}

func TestAnotherServerHearsOfTheAnswer(t *testing.T) {
	w := withPage(t, nil)
	uri, waits := w.gate(gatedDoc)
	round := w.nextRound(uri, placeholder(waits))
	heard := make(chan error, 1)
	replica := w.another()
	go func() { heard <- replica.Settled(t.Context(), round.Pending.Run, round.Pending.Seq) }()
	w.decide(waits, "approved", "")
	select {
	case err := <-heard:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the other server did not look at the store")
	}
}

func TestANewClientMayAskThePersonItself(t *testing.T) {
	w := withPage(t, nil)
	uri, waits := w.gate(gatedDoc)
	w.caller.Client = driver.Client{ElicitationForm: true}
	ask := w.ask(w.nextRound(uri, placeholder(waits)), "elicitation/create")
	if v := w.view(waits); v.State != approval.Open {
		t.Errorf("the link shows %s, want that it is still good for the same question", v.State)
	}
	w.code(w.reply(w.answer(ask, `{"action":"accept","content":{"confirmation":"approved"}}`)), "")
	if v := w.decide(waits, "rejected", ""); v.State == approval.Rejected {
		t.Error("a link undid an approval that was given through the client")
	}
}

func TestWithoutAPageNothingChanges(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(gatedDoc)
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"what":"x"}`))
	w.code(w.next(uris[1], placeholder(r)), "APPROVAL_UNAVAILABLE")
}
