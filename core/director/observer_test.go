package director_test

import (
	"sync"
	"testing"

	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// audience keeps the routes that ended.
type audience struct {
	mu     sync.Mutex // guards routes
	routes []director.Route
}

func (a *audience) Routed(r director.Route) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.routes = append(a.routes, r)
}

func (*audience) Operated(library.Operation)  {}
func (*audience) Stored(string, int)          {}
func (*audience) Rated(library.Rated)         {}
func (*audience) RatingsLost(string, int)     {}
func (*audience) SimilarFound(string, string) {}
func (*audience) Begun(string)                {}
func (*audience) Attested(director.Attested)  {}

func TestAnObserverHearsWhyARouteGaveNoAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		play func(w *world, a *director.Ask)
		want director.RouteOutcome
		code string
	}{
		"an invalid reply": {func(w *world, a *director.Ask) {
			w.answer(w.ask(w.answer(a, `{}`), "sampling/createMessage"), `{}`)
		}, "invalid", "SAMPLING_FAILED"},
		"a client that fails": {func(w *world, a *director.Ask) { w.fails(a) }, "error", "SAMPLING_FAILED"},
		"no reply in time": {func(w *world, a *director.Ask) {
			if _, err := w.Waiting(w.t.Context(), w.caller, a.Run, a.Seq); err != nil {
				w.t.Fatal(err)
			}
		}, "timeout", "SAMPLING_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			heard := &audience{}
			w := newWorld(t, func(c *choices) { c.Observer = heard })
			uri := w.mint(sampledStep)[0]
			w.caller.Client = driver.Client{Sampling: true}
			tc.play(w, w.ask(w.beginRound(uri, ""), "sampling/createMessage"))
			heard.mu.Lock()
			defer heard.mu.Unlock()
			if len(heard.routes) == 0 {
				t.Fatal("nothing was heard of a route")
			}
			if r := heard.routes[0]; r.Outcome != tc.want || r.ErrorCode != tc.code || r.Via != "sampling" {
				t.Errorf("heard of %+v, want %s with %s", r, tc.want, tc.code)
			}
		})
	}
}
