package director_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// read joins the parts of a step's text, as the run shows it.
func (w *world) read(uri, runID string) string {
	w.t.Helper()
	var text strings.Builder
	for part, parts := 1, 1; part <= parts; part++ {
		r, err := w.Part(w.t.Context(), w.caller, api.DumpRequest{URI: uri, RunID: runID, Part: part})
		if err != nil {
			w.t.Fatal(err)
		}
		if r.URI != uri || r.Part != part || r.Parts < part || len(r.Document) > 4096 {
			w.t.Errorf("part %d of %s is part %d of %d of %s, with %d bytes", part, uri, r.Part, r.Parts, r.URI, len(r.Document))
		}
		text.WriteString(r.Document)
		parts = r.Parts
	}
	return text.String()
}

func longDoc() string {
	long := strings.Repeat("Read this line to its end.\n", 400)
	return inputsDoc("Long", "who") + shellDoc("One", "for {{ input.who }}\n\n"+long, "one", "a") +
		shellDoc("Two", "with {{ steps.one.found }}\n\n"+long, "two", "b") + shellDoc("Three", "short", "three", "c")
}

func TestALongStepIsReadInParts(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(longDoc())
	first := w.reply(w.beginRound(uris[0], `{"who":"Zoë\u202e"}`))
	const says = "If current_step.content is cut, call kairos_dump with its uri, run_id and part, from 1 to 3."
	if !strings.Contains(first.Message, says) {
		t.Errorf("begin says %q, want %q", first.Message, says)
	}
	second := w.next(uris[0], solve(first, `{"ok":true,"found":"`+strings.Repeat("é", 500)+`"}`))
	if !strings.Contains(second.Message, says) || !strings.HasPrefix(second.Message, "Step 1 is solved") {
		t.Errorf("next says %q, want %q in it", second.Message, says)
	}
	third := w.next(uris[1], solve(second, works))
	if strings.Contains(third.Message, "kairos_dump") {
		t.Errorf("of a short step next says %q", third.Message)
	}
	for _, r := range []*api.StepReply{first, second, third} { // steps that were solved are read, too
		want := plain.Text(r.CurrentStep.Content)
		if got := w.read(r.CurrentStep.URI, r.RunID); got != want {
			t.Errorf("step %d is read as %d bytes, want the %d of its content", r.StepIndex, len(got), len(want))
		}
	}
	if got := w.read(uris[0], first.RunID); !strings.Contains(got, `"Zoë⟨U+202E⟩"`) {
		t.Errorf("the value is not filled in, or hides a character: %.300q", got)
	}
}

func TestAPartOfARunIsOnlyForThoseWhoseItIs(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(longDoc())
	first := w.reply(w.beginRound(uris[0], `{"who":"me"}`))
	other := w.mint("# Other\n" + shellDoc("One", "x", "one", "a"))[0]
	stranger := access.Caller{Principal: "you", Space: "user:test:you"}
	for name, tc := range map[string]struct {
		caller access.Caller
		in     api.DumpRequest
		code   fault.Code
	}{
		"a later step":           {w.caller, api.DumpRequest{URI: uris[1], RunID: first.RunID, Part: 1}, fault.InvalidArgument},
		"no such part":           {w.caller, api.DumpRequest{URI: uris[0], RunID: first.RunID, Part: 4}, fault.InvalidArgument},
		"a part below the first": {w.caller, api.DumpRequest{URI: uris[0], RunID: first.RunID, Part: -1}, fault.InvalidArgument},
		"the whole protocol":     {w.caller, api.DumpRequest{URI: uris[0], RunID: first.RunID, Part: 1, Protocol: true}, fault.InvalidArgument},
		"of another protocol":    {w.caller, api.DumpRequest{URI: other, RunID: first.RunID, Part: 1}, fault.NotFound},
		"not a URI":              {w.caller, api.DumpRequest{URI: "x://y", RunID: first.RunID, Part: 1}, fault.InvalidArgument},
		"no such run":            {w.caller, api.DumpRequest{URI: uris[0], RunID: "01900000-0000-7000-8000-000000000000", Part: 1}, fault.NotFound},
		"another's run":          {stranger, api.DumpRequest{URI: uris[0], RunID: first.RunID, Part: 1}, fault.NotFound},
	} {
		if r, err := w.Part(t.Context(), tc.caller, tc.in); fault.CodeOf(err) != tc.code {
			t.Errorf("%s: %+v, %v; want %s", name, r, err, tc.code)
		}
	}
}

// TestAPartOfWhatIsStored: without a run, a part is of the document that kairos_dump returns.
func TestAPartOfWhatIsStored(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(longDoc())
	for _, whole := range []bool{false, true} {
		all, err := w.Dump(t.Context(), w.caller, api.DumpRequest{URI: uris[0], Protocol: whole})
		if err != nil || all.Part != 0 || all.Parts != 0 {
			t.Fatalf("Dump = %+v, %v; want no part", all, err)
		}
		var text strings.Builder
		for part, parts := 1, 1; part <= parts; part++ {
			r, err := w.Dump(t.Context(), w.caller, api.DumpRequest{URI: uris[0], Protocol: whole, Part: part})
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString(r.Document)
			parts = r.Parts
		}
		if text.String() != all.Document {
			t.Errorf("the parts are %.200q, want the document", text.String())
		}
	}
}
