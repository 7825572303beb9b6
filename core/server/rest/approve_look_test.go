package rest_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/clock/clocktest"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/server/web/webtest"
)

var local = access.Caller{Principal: "local", Space: "user:local:operator"}

func (w *world) undecline(id string) {
	w.t.Helper()
	if _, err := w.engine.Runs.Undecline(w.t.Context(), local, director.UndeclineInput{Run: run.ID(id), By: "olga (command line)", Reason: "it was the wrong button"}); err != nil {
		w.t.Fatal(err)
	}
}

// later serves the same approvals when that time has passed.
func (w *world) later(d time.Duration) *world {
	e := w.anotherEngine(clock.New(clocktest.New(time.Now().Add(d))), slog.New(slog.DiscardHandler))
	return newWorld(w.t, func(c *rest.Config) { c.Engine, c.MCP, c.Tools, c.Check, c.Approvals = nil, nil, nil, nil, e.Runs })
}

// pageState is a state of the approval page: how it comes about, and what the page then says and offers.
type pageState struct {
	reach func(w *world, uris []string) string // its address
	says  string
	// offers are the values of its buttons.
	offers []string
}

var pageStates = map[string]pageState{
	"open": {func(w *world, uris []string) string {
		path, _, _ := w.gateRun(uris)
		return w.url + path
	}, "May this step be done?", []string{"rejected", "approved"}},
	"approved": {func(w *world, uris []string) string {
		path, _, _ := w.gateRun(uris)
		w.press(path, "approved", "")
		return w.url + path
	}, "The agent may continue", nil},
	"rejected": {func(w *world, uris []string) string {
		path, _, _ := w.gateRun(uris)
		w.press(path, "rejected", "")
		return w.url + path
	}, "Nobody is asked again. If this was a mistake", nil},
	"rejected, run over": {func(w *world, uris []string) string {
		path, id, _ := w.gateRun(uris)
		w.press(path, "rejected", "")
		w.post("kairos_attest", fmt.Sprintf(`{"uri":%q,"run_id":%q,"outcome":"failure","message":"m"}`, uris[1], id)).want(200, "")
		return w.url + path
	}, "The run has ended.", nil},
	"rejected, taken back": {func(w *world, uris []string) string {
		path, id, _ := w.gateRun(uris)
		w.press(path, "rejected", "")
		w.undecline(id)
		return w.url + path
	}, "The rejection was taken back at", nil},
	"asked again": {func(w *world, uris []string) string {
		path, id, again := w.gateRun(uris)
		w.press(path, "rejected", "")
		again()
		w.undecline(id)
		return w.url + again().str("approval_url")
	}, "and the decline was taken back at", []string{"rejected", "approved"}},
	"declined elsewhere": {func(w *world, uris []string) string {
		path, _, _ := w.gateRun(uris)
		other, _, _ := w.gateRun(uris)
		w.press(other, "rejected", "")
		return w.url + path
	}, "cannot be approved with a link while the decline stands", []string{"rejected"}},
	"expired": {func(w *world, uris []string) string {
		path, _, _ := w.gateRun(uris)
		return w.later(2*time.Hour).url + path
	}, "Too late", nil},
	"run over": {func(w *world, uris []string) string {
		path, id, _ := w.gateRun(uris)
		w.post("kairos_attest", fmt.Sprintf(`{"uri":%q,"run_id":%q,"outcome":"failure","message":"m"}`, uris[1], id)).want(200, "")
		return w.url + path
	}, "The run has ended, and nothing was decided here", nil},
	"unknown": {func(w *world, uris []string) string {
		path, _, _ := w.gateRun(uris)
		return w.url + path + "0"
	}, "No such approval", nil},
}

// Every state of the page says what it is and offers only what the server takes, in a real browser.
func TestThePageOffersOnlyWhatIsTaken(t *testing.T) {
	b := webtest.Open(t)
	for name, state := range pageStates {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			url := state.reach(w, w.mint(fmt.Sprintf(releaseDoc, "")))
			for width, scheme := range map[int]webtest.Scheme{360: webtest.Light, 900: webtest.Dark} {
				b.Show(url, width, scheme)
				if over := b.Overflowing(); len(over) > 0 {
					t.Errorf("at a width of %d these reach beyond it: %v", width, over)
				}
			}
			var text string
			b.Ask(`document.body.innerText`, &text)
			var offers []string
			b.Ask(`[...document.querySelectorAll("button")].map(x => x.value)`, &offers)
			if !strings.Contains(text, state.says) || strings.Contains(text, "logged in") || strings.Contains(text, "kairos_") || fmt.Sprint(offers) != fmt.Sprint(state.offers) {
				t.Fatalf("the page offers %v, want %v, and says %q, want %q", offers, state.offers, text, state.says)
			}
			if len(offers) > 0 {
				b.Show(url, 360, webtest.Light)
				offer := offers[len(offers)-1]
				var pressed bool
				b.Ask(fmt.Sprintf(`(document.querySelector('button[value=%s]').click(), true)`, offer), &pressed)
				w.settles(t, url, map[string]string{"approved": "This was approved at", "rejected": "This was rejected at"}[offer])
			}
		})
	}
}

// settles waits until the page says what the button did.
func (w *world) settles(t *testing.T, url, says string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(string(w.get(strings.TrimPrefix(url, w.url)).body), says) {
			return
		}
	}
	t.Errorf("after the button was pressed the page does not say %q", says)
}
