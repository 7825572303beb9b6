package director_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const offers = "  grant:\n    - {via: elicitation}\n"

func allows(word string) string { return `{"action":"accept","content":{"allow":"` + word + `"}}` }

func TestAFormAllowsWhatDriversDoInItsRun(t *testing.T) {
	w, d := offeringDoer(t, driver.EffectReads, offers)
	w.caller.Client.Name = "editor\u202e"
	uri := w.mint(plainStep)[0]
	a := w.ask(w.beginRound(uri, ""), "elicitation/create")
	for _, want := range []string{"KAIROS can do these steps of the protocol", "1. Act (driver doer, only looks)", "act on earth", "ask you each time", "`kairos allow`"} {
		if !strings.Contains(string(a.Params), want) {
			t.Errorf("the question is %s, want %q in it", a.Params, want)
		}
	}
	open := w.reply(w.answer(a, allows("once")))
	w.code(open, "")
	if len(d.did) > 0 {
		t.Errorf("it did %q when it was merely allowed", d.did)
	}
	done := w.next(uri, placeholder(open))
	if w.code(done, ""); len(d.did) != 1 || done.Solved[0].Provenance != driver.ServerObserved {
		t.Fatalf("did %q, solved %+v", d.did, done.Solved)
	}
	all, err := w.Granted(t.Context(), w.caller)
	if err != nil || len(all) != 1 || all[0].Effect != driver.EffectReads || all[0].Run != runOf(open) || all[0].By != `a form in editor⟨U+202E⟩, through elicitation` {
		t.Errorf("grants = %+v, %v, want one for this run that does not say that a person gave it", all, err)
	}
	if again := w.beginRound(uri, ""); again.Ask == nil {
		t.Error("the next run does not ask: the form allowed more than its run")
	}
}

// TestWhatAPersonAllowsCountsInTheSameCall: the step that is shown next is the driver's.
func TestWhatAPersonAllowsCountsInTheSameCall(t *testing.T) {
	w, _ := offeringDoer(t, driver.EffectReads, offers)
	a := w.ask(w.beginRound(w.mint(plainStep)[0], ""), "elicitation/create")
	if open := w.reply(w.answer(a, allows("once"))); !strings.Contains(open.Challenge.Description, "The server obtains this itself") {
		t.Errorf("the step that was just allowed says %q, want that KAIROS does it", open.Challenge.Description)
	}
}

// TestAnEditedProtocolShowsWhatChanged: who is asked again sees what changed since
// they allowed it, in the form and at the terminal.
func TestAnEditedProtocolShowsWhatChanged(t *testing.T) {
	w, _ := offeringDoer(t, driver.EffectReads, offers)
	uri := w.mint(plainStep)[0]
	a := w.ask(w.beginRound(uri, ""), "elicitation/create")
	if strings.Contains(string(a.Params), "earlier version") {
		t.Errorf("the first question is %s", a.Params)
	}
	w.reply(w.answer(a, allows("once")))
	allowed := director.AllowInput{ActsOn: director.ActsOn{URI: uri}, By: "me"}
	if _, err := w.AllowSteps(t.Context(), w.caller, allowed); err != nil {
		t.Fatal(err)
	}
	edited := w.mint(strings.Replace(plainStep, "\nact\n", "\nact, and tell\u202enobody\n", 1))[0]
	a = w.ask(w.beginRound(edited, ""), "elicitation/create")
	for _, want := range []string{"You allowed an earlier version on 2026-", "This changed since", `\u003e -act\n`, `\u003e +act, and tell`} {
		if !strings.Contains(string(a.Params), want) {
			t.Errorf("the question is %s, want %q in it", a.Params, want)
		}
	}
	if strings.ContainsRune(string(a.Params), '\u202e') {
		t.Error("a character that turns text around reaches the form")
	}
	acts, err := w.Actable(t.Context(), w.caller, director.ActsOn{URI: edited})
	if err != nil || acts.Earlier == nil || !strings.Contains(acts.Earlier.Diff, "+act, and tell") {
		t.Errorf("Actable = %+v, %v, want what changed", acts.Earlier, err)
	}
	w.code(w.reply(w.answer(a, allows("once"))), "")
	allowed.URI = edited
	if _, err := w.AllowSteps(t.Context(), w.caller, allowed); err != nil {
		t.Fatal(err)
	}
	if acts, err = w.Actable(t.Context(), w.caller, director.ActsOn{URI: edited}); err != nil || acts.Earlier != nil {
		t.Errorf("Actable after it was allowed = %+v, %v, want no earlier version", acts.Earlier, err)
	}
}

// TestAFormNamesWhatDriversCannotDo: a step that no driver can do now is not
// offered, and the form says why.
func TestAFormNamesWhatDriversCannotDo(t *testing.T) {
	w, d := offeringDoer(t, driver.EffectReads, offers)
	d.refuses, d.only = "no server\nhas the tool", 2
	uri := w.mint(plainStep + strings.SplitN(plainStep, "\n", 2)[1])[0]
	a := w.ask(w.beginRound(uri, ""), "elicitation/create")
	for _, want := range []string{"(1 of 2)", `It cannot do step 2 (Act) now: driver doer says \"no server\\nhas the tool\"`} {
		if !strings.Contains(string(a.Params), want) {
			t.Errorf("the question is %s, want %q in it", a.Params, want)
		}
	}
	w.code(w.reply(w.answer(a, allows("once"))), "")
	if all, err := w.Granted(t.Context(), w.caller); err != nil || len(all) != 1 || all[0].Step != 1 {
		t.Errorf("grants = %+v, %v, want step 1 alone", all, err)
	}
}

func TestWithoutAYesTheAgentDoesTheStep(t *testing.T) {
	for name, result := range map[string]string{
		"no":         allows("no"),
		"a decline":  `{"action":"decline"}`,
		"dismissed":  `{"action":"cancel"}`,
		"other word": allows("perhaps"),
		"for ever":   allows("always"), // whoever fills forms by themselves
		"unreadable": `{"action":"accept","content":17}`,
	} {
		t.Run(name, func(t *testing.T) {
			w, d := offeringDoer(t, driver.EffectReads, offers)
			uri := w.mint(plainStep)[0]
			open := w.reply(w.answer(w.ask(w.beginRound(uri, ""), "elicitation/create"), result))
			w.code(open, "")
			r := w.next(uri, placeholder(open))
			w.code(r, "MISSING_FIELD")
			r = w.next(uri, solve(r, `{"ok":true}`))
			w.code(r, "")
			if all, err := w.Granted(t.Context(), w.caller); err != nil || len(all) > 0 || len(d.did) > 0 {
				t.Errorf("grants %v, %v, did %q", all, err, d.did)
			}
			if !strings.Contains(w.told(runOf(open)), "KAIROS can do these") {
				t.Error("the timeline says nothing of the question")
			}
		})
	}
}

func TestNobodyIsAskedWhatNoDriverCouldDo(t *testing.T) {
	cases := map[string]func(*world, *doer){
		"the driver could not": func(_ *world, d *doer) { d.refuses = "no server has the tool" },
		"no form":              func(w *world, _ *doer) { w.caller.Client = driver.Client{} },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			w, d := offeringDoer(t, driver.EffectReads, offers)
			uri := w.mint(plainStep)[0]
			change(w, d)
			w.code(w.begin(uri), "")
		})
	}
}

func TestAnAgentThatWorksMeanwhileIsNotHeldUp(t *testing.T) {
	w, d := offeringDoer(t, driver.EffectReads, offers)
	uri := w.mint(plainStep)[0]
	a := w.ask(w.beginRound(uri, ""), "elicitation/create")
	waits, err := w.Waiting(t.Context(), w.caller, a.Run, a.Seq)
	if err != nil {
		t.Fatal(err)
	}
	w.code(&waits, "WAITING_FOR_USER")
	done := w.next(uri, solve(&waits, `{"ok":true}`))
	if w.code(done, ""); len(d.did) > 0 || done.Solved[0].Provenance != driver.AgentReported {
		t.Errorf("did %q, solved %+v", d.did, done.Solved)
	}
	late := w.answer(a, allows("once"))
	if all, err := w.Granted(t.Context(), w.caller); err != nil || len(all) > 0 {
		t.Errorf("a late yes gave %v, %v (%+v)", all, err, late)
	}
}

func TestAnOfferThatIsOpenIsPutAgain(t *testing.T) {
	w, d := offeringDoer(t, driver.EffectReads, offers)
	uri := w.mint(plainStep)[0]
	a := w.ask(w.beginRound(uri, ""), "elicitation/create")
	waits, err := w.Waiting(t.Context(), w.caller, a.Run, a.Seq)
	if err != nil {
		t.Fatal(err)
	}
	again := w.ask(w.nextRound(uri, placeholder(&waits)), "elicitation/create")
	open := w.reply(w.answer(again, allows("once")))
	w.code(w.next(uri, placeholder(open)), "")
	if len(d.did) != 1 {
		t.Errorf("did %q", d.did)
	}
}

// TestTheOfferFollowsTheFormForTheRunsInput: a protocol that asks for its input first
// shows the steps with what is known by then.
func TestTheOfferFollowsTheFormForTheRunsInput(t *testing.T) {
	const inputs = "# Act\n\n```json\n{\"inputs\":{\"type\":\"object\",\"properties\":{\"who\":{\"type\":\"string\"}},\"required\":[\"who\"]}}\n```\n"
	step := strings.Replace(plainStep, `"tool_name":"go"`, `"tool_name":"go","arguments":{"who":"{{ input.who }}"}`, 1)
	for name, given := range map[string]string{"asked for": "", "given at once": `{"who":"Ann"}`} {
		t.Run(name, func(t *testing.T) {
			w, d := offeringDoer(t, driver.EffectReads, offers)
			uri := w.mint(inputs + strings.TrimPrefix(step, "# Act\n"))[0]
			round := w.beginRound(uri, given)
			if given == "" {
				round = w.answer(w.ask(round, "elicitation/create"), `{"action":"accept","content":{"who":"Ann"}}`)
			}
			a := w.ask(round, "elicitation/create")
			if !strings.Contains(string(a.Params), "KAIROS can do these steps") {
				t.Errorf("the question is %s", a.Params)
			}
			if last := d.shown[len(d.shown)-1]; !strings.Contains(last, `"who":"Ann"`) {
				t.Errorf("previewed %s, want what is known filled in", last)
			}
			open := w.reply(w.answer(a, allows("once")))
			if w.code(w.next(uri, placeholder(open)), ""); len(d.did) != 1 {
				t.Errorf("did %q", d.did)
			}
		})
	}
}
