package director_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

const offers = "  grant:\n    - {via: elicitation}\n"

func allows(word string) string { return `{"action":"accept","content":{"allow":"` + word + `"}}` }

func TestAPersonAllowsWhatDriversDoWhenARunBegins(t *testing.T) {
	for _, answer := range []string{"once", "always"} {
		t.Run(answer, func(t *testing.T) {
			w, d := offeringDoer(t, driver.EffectReads, offers)
			uri := w.mint(plainStep)[0]
			a := w.ask(w.beginRound(uri, ""), "elicitation/create")
			for _, want := range []string{"KAIROS can do these steps of the protocol", "1. Act (driver doer, only looks)", "act on earth", "ask you each time"} {
				if !strings.Contains(string(a.Params), want) {
					t.Errorf("the question is %s, want %q in it", a.Params, want)
				}
			}
			open := w.reply(w.answer(a, allows(answer)))
			w.code(open, "")
			if len(d.did) > 0 {
				t.Errorf("it did %q when it was merely allowed", d.did)
			}
			done := w.next(uri, placeholder(open))
			if w.code(done, ""); len(d.did) != 1 || done.Solved[0].Provenance != driver.ServerObserved {
				t.Fatalf("did %q, solved %+v", d.did, done.Solved)
			}
			all, err := w.Granted(t.Context(), w.caller)
			if err != nil || len(all) != 1 || all[0].Effect != driver.EffectReads || (all[0].Run == runOf(open)) != (answer == "once") {
				t.Errorf("grants = %+v, %v", all, err)
			}
			again := w.beginRound(uri, "")
			if asked := again.Ask != nil; asked != (answer == "once") {
				t.Errorf("the next run asks: %v", asked)
			}
		})
	}
}

func TestWithoutAYesTheAgentDoesTheStep(t *testing.T) {
	for name, result := range map[string]string{
		"no":         allows("no"),
		"a decline":  `{"action":"decline"}`,
		"dismissed":  `{"action":"cancel"}`,
		"other word": allows("perhaps"),
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
	late := w.answer(a, allows("always"))
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
