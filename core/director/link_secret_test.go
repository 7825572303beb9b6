package director_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

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
