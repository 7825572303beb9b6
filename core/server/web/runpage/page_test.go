package runpage_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/web/runpage"
	"github.com/kairos-mcp/kairos/core/server/web/webtest"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func html(t testing.TB, r runpage.Run) string {
	t.Helper()
	var b strings.Builder
	if err := r.Page(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// file is the page as a file that a browser can open.
func file(t testing.TB, r runpage.Run) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.html")
	if err := os.WriteFile(path, []byte(html(t, r)), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

// place is where the line that leads into a node is drawn, and what it has to
// look like.
type place struct {
	X, Y    int
	Entered bool
	Text    string
}

const places = `[...document.querySelectorAll(".tree li")].map(li => {
	const r = li.getBoundingClientRect();
	const last = li === li.parentElement.lastElementChild;
	return {X: Math.floor(r.left + 1), Y: Math.floor(r.top + scrollY + 3), Entered: li.matches(".entered, .through"),
		Text: li.querySelector("b").textContent};
})`

func TestPageShowsTheWayThatWasTaken(t *testing.T) {
	b := webtest.Open(t)
	url := file(t, threeRoutes(t))
	for width, scheme := range map[int]webtest.Scheme{360: webtest.Light, 1280: webtest.Light, 800: webtest.Dark} {
		t.Run(fmt.Sprintf("%d %s", width, scheme), func(t *testing.T) {
			b.Show(url, width, scheme)
			if over := b.Overflowing(); len(over) > 0 {
				t.Errorf("at a width of %d these reach beyond it: %v", width, over)
			}
			picture := b.Picture()
			if n := webtest.Colours(picture); n < 30 {
				t.Errorf("the picture has %d colours, want a page with text and lines", n)
			}
			var lines []place
			b.Ask(places, &lines)
			mark, entered := b.Colour("--mark"), 0
			for _, l := range lines {
				marked := webtest.At(picture, l.X, l.Y) == mark
				if marked != l.Entered {
					t.Errorf("the line to %q at %d,%d is %s, marked %v, want %v", l.Text, l.X, l.Y, webtest.At(picture, l.X, l.Y), marked, l.Entered)
				}
				if marked {
					entered++
				}
			}
			if entered < 10 || entered == len(lines) {
				t.Errorf("%d of %d lines are marked, want some of them", entered, len(lines))
			}
		})
	}
}

func TestPageLoadsNothingAndRunsNothing(t *testing.T) {
	b := webtest.Open(t)
	b.Show(file(t, hostile(t)), 360, webtest.Light)
	var got struct {
		Scripts, Resources, Images int
		Title                      string
	}
	b.Ask(`({Scripts: document.scripts.length, Resources: performance.getEntriesByType("resource").length,
		Images: document.querySelectorAll("img, iframe, link, object").length, Title: document.title})`, &got)
	if got.Scripts+got.Resources+got.Images > 0 || got.Title == "pwned" {
		t.Errorf("the page has %+v, want nothing that runs or is loaded", got)
	}
	if over := b.Overflowing(); len(over) > 0 {
		t.Errorf("texts of others reach beyond the page: %v", over)
	}
}

const evil = "</code></pre><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">\u202egnp.exe\x00"

// hostile is a run in which everybody says something that is HTML.
func hostile(t testing.TB) runpage.Run {
	s := newStory(t, evil, 1)
	f := decision.Facts{Challenge: decision.ChallengeFacts{Type: evil, Name: evil}, Client: decision.ClientFacts{Name: evil}}
	s.at(1, evil, archive.Moment{What: "asked", Via: evil, Question: evil + strings.Repeat("wide", 1000)})
	s.decided(1, driver.KindEvidence, f, decision.Past{Outcome: decision.Invalid, Took: 1})
	answer, err := json.Marshal(map[string]string{"a": evil, "b": strings.Repeat("long", 1<<16)})
	if err != nil {
		t.Fatal(err)
	}
	s.at(1, evil, archive.Moment{What: "answered", Via: evil, Answer: answer, Verdict: evil, Driver: evil, ProofHash: strings.Repeat("f", 64), Provenance: evil})
	s.run.Timeline.Problem = evil
	return s.run
}

func TestPageTurnsTextsOfOthersIntoText(t *testing.T) {
	got := html(t, hostile(t))
	for _, bad := range []string{"<script", "<img", "\u202e", "\x00"} {
		if strings.Contains(got, bad) {
			t.Errorf("the page holds %q as it came", bad)
		}
	}
	if !strings.Contains(got, "⟨U&#43;202E⟩") {
		t.Error("the page hides that a text turns its direction")
	}
	if n := len(got); n > 400<<10 {
		t.Errorf("the page is %d bytes large, want long texts cut", n)
	}
}

func TestPageShowsAnswersWithoutTheEscapesOfHTML(t *testing.T) {
	r := threeRoutes(t)
	last := &r.Timeline.Moments[len(r.Timeline.Moments)-1]
	last.Answer = json.RawMessage(`{"cmd":"a \u0026\u0026 b \u003e c"}`)
	if page := html(t, r); !strings.Contains(page, "a &amp;&amp; b &gt; c") {
		t.Errorf("the answer %s is not on the page as it is", last.Answer)
	}
}

func TestAMomentWithoutAnAnswerShowsNone(t *testing.T) {
	r := threeRoutes(t)
	r.Timeline.Moments[0].Question, r.Timeline.Moments[0].Answer = "May it?", nil
	if page := html(t, r); !strings.Contains(page, "May it?") || strings.Contains(page, ">null<") {
		t.Error("the page shows an answer that nobody gave")
	}
}

func TestPageOfAnotherTreeDrawsWhatWasLookedAt(t *testing.T) {
	r := threeRoutes(t)
	r.Tree.Digest = "of another tree"
	got := html(t, r)
	if !strings.Contains(got, "Another tree than the one in use now decided this") {
		t.Error("the page does not say that another tree decided")
	}
	for _, d := range r.Decisions {
		for _, n := range d.Decision.Trace {
			if !strings.Contains(got, n.Path+",") {
				t.Errorf("the page lacks %s, which was looked at", n.Path)
			}
		}
	}
}

func TestPageOfAnOldRunIsDrawnFromItsWalk(t *testing.T) {
	r := threeRoutes(t)
	for i := range r.Decisions {
		r.Decisions[i].Record = nil
	}
	if got := html(t, r); !strings.Contains(got, "A version that kept less decided this") || !strings.Contains(got, "via sampling") {
		t.Error("the page of a run without facts lacks its walk or does not say why it is short")
	}
}

func TestPageSaysNoMoreThanIsKnown(t *testing.T) {
	s := newStory(t, "Nothing yet", 3)
	got := html(t, s.run)
	for _, want := range []string{"3 more steps, not reached", "Not verified", "0 of 3 steps"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page of a run without a step lacks %q", want)
		}
	}
	s.run.Timeline.Problem, s.run.Timeline.Worth = "1 of 2 steps is not proved.", "1 step seen by KAIROS"
	if got := html(t, s.run); !strings.Contains(got, "Not verified: 1 of 2 steps is not proved.") {
		t.Error("the page of a run that is not verified does not say who vouches for what is proved")
	}
	s.run.Timeline.Verified = true
	if got := html(t, s.run); !strings.Contains(got, "Verified: 1 step seen by KAIROS. The proof chain is whole.") {
		t.Error("the page of a verified run does not say who vouches for it")
	}
	r := threeRoutes(t)
	good := 0
	for _, l := range strings.Split(html(t, r), "\n") {
		for _, p := range []driver.Provenance{driver.AgentReported, driver.ModelGenerated, driver.ClientAttested} {
			if strings.Contains(l, `badge good">`+string(p)) {
				good++
			}
		}
	}
	if diff := cmp.Diff(0, good); diff != "" {
		t.Errorf("words of agents, models and clients that look as good as what the server saw (-want +got):\n%s", diff)
	}
}

func TestPageSaysWhatDidNotCountAndWhichRevisionWasFollowed(t *testing.T) {
	r := threeRoutes(t)
	r.Timeline.Protocol = &api.ProtocolRevision{Revision: 2, Stored: 3}
	r.Timeline.Tries = []run.StepTries{{Step: r.Timeline.Moments[0].Step, Solved: true, Tries: run.Tries{Times: 3, Failures: 2, Discarded: 2}}}
	page := html(t, r)
	for _, want := range []string{"revision 2 of the protocol, which differs from the stored protocol (revision 3)", "Tried before: 3 attempts, 2 failures, 2 observations of the server that did not count"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestADeclineMarksItsStepUntilTheRunContinues(t *testing.T) {
	marks := func(whats ...string) string {
		s := newStory(t, "Release", 1)
		for _, what := range whats {
			s.at(1, "Ask", archive.Moment{What: what})
		}
		before, _, _ := strings.Cut(html(t, s.run), `"><span class="stop">`)
		return before[strings.LastIndex(before, `"`)+1:]
	}
	no, goneOn, open := marks("asked", "declined", "refused"), marks("asked", "declined", "refused", "asked"), marks("asked")
	if no == open || no != marks("asked", "rejected") || goneOn == no {
		t.Errorf("marks: after a decline %q, asked again %q, never answered %q", no, goneOn, open)
	}
}
