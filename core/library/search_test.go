package library_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// reports mints "Report" and eleven protocols whose titles contain the word.
func (w *world) reports() (first string) {
	w.t.Helper()
	first = w.mint("# Report\n\nWrite the figures of the week down,\nfor those who were away.\n\n## Count\n\nx\n")[0]
	for _, month := range strings.Fields("January February March April May June July August September October November") {
		w.mint("# " + month + " report\n\nThe " + strings.Repeat("figures and ", 10) + "words.\n\n## Count\n\nx\n")
	}
	return first
}

func (w *world) search(in api.SearchRequest) (api.SearchReply, []api.Choice) {
	w.t.Helper()
	r, err := w.Search(w.t.Context(), w.caller, in)
	if err != nil {
		w.t.Fatalf("Search(%+v): %v", in, err)
	}
	n := len(r.Choices) - 2
	if n < 0 || r.Choices[n].Role != "refine" || r.Choices[n+1].Role != "create" {
		w.t.Fatalf("Search(%+v) offers %+v, want refine and create at the end", in, r.Choices)
	}
	return r, r.Choices[:n]
}

func TestOnlyASureMatchIsPrefilled(t *testing.T) {
	w := newWorld(t, nil)
	first := w.reports()
	for query, want := range map[string]struct {
		confidence api.Confidence
		matches    int
		begins     string
	}{
		"Report":        {api.ConfidenceSure, 5, first},
		"reports":       {api.ConfidenceSure, 5, first},
		"figures":       {api.ConfidencePerhaps, 3, ""},
		"xqzzy blorft":  {api.ConfidenceWeak, 0, ""},
		"qqq www eee z": {api.ConfidenceWeak, 0, ""},
	} {
		r, matches := w.search(api.SearchRequest{Query: query})
		if r.Confidence != want.confidence || len(matches) != want.matches {
			t.Errorf("Search(%q) is %s with %d matches, want %s with %d", query, r.Confidence, len(matches), want.confidence, want.matches)
		}
		if want.begins == "" && r.NextCall != nil {
			t.Errorf("Search(%q) prefills %s %s while nothing is sure", query, r.NextCall.Tool, r.NextCall.Arguments)
		}
		if want.begins != "" && (r.NextCall == nil || r.NextCall.Tool != "kairos_begin" || string(r.NextCall.Arguments) != `{"uri":"`+want.begins+`"}`) {
			t.Errorf("Search(%q) prefills %+v, want begin of %s", query, r.NextCall, want.begins)
		}
		if !strings.Contains(r.NextAction, "choice's next_action") {
			t.Errorf("Search(%q): next_action %q does not lead to a choice", query, r.NextAction)
		}
	}
}

// TestWeakMatchesAreNearest: a score must not hide the right protocol from an agent, which
// can judge better.
func TestWeakMatchesAreNearest(t *testing.T) {
	w := newWorld(t, func(o *library.Options) { o.ScoreThreshold = 0.99 })
	w.reports()
	r, matches := w.search(api.SearchRequest{Query: "the figures of the week"})
	if r.Confidence != api.ConfidenceWeak || len(matches) != 0 || r.NextCall != nil {
		t.Fatalf("the search is %s with %d matches and the call %+v, want it weak with neither", r.Confidence, len(matches), r.NextCall)
	}
	if len(r.Nearest) != 12 {
		t.Fatalf("nearest lists %d protocols, want all 12, for they are few", len(r.Nearest))
	}
	best := r.Nearest[0]
	if best.Title != "Report" || best.Description != "Write the figures of the week down," || !strings.Contains(best.Why, "week") || !strings.HasPrefix(best.URI, "kairos://mem/") {
		t.Errorf("the nearest is %+v, want Report with its description and a reason", best)
	}
	if !strings.Contains(r.Message, "none of these may fit") {
		t.Errorf("message %q does not warn of what is nearest", r.Message)
	}
	other := w.caller
	other.Space = "user:test:other"
	hidden, err := w.Search(t.Context(), other, api.SearchRequest{Query: "Report"})
	if err != nil || len(hidden.Nearest) != 0 || hidden.Confidence != api.ConfidenceNone {
		t.Errorf("a search from another space is %s with %+v, %v, want none", hidden.Confidence, hidden.Nearest, err)
	}
	if hidden.NextCall == nil || !strings.Contains(string(hidden.NextCall.Arguments), "000000002002") {
		t.Errorf("a search that found nothing prefills %+v, want the refining", hidden.NextCall)
	}
}

func TestOfManyProtocolsOnlyTheNearestAreListed(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 51 {
		w.mint(fmt.Sprintf("# Water plant %d\n\nWhat it needs.\n\n## Pour\n\nWater.\n", i))
	}
	r, matches := w.search(api.SearchRequest{Query: "water plant pour soil"})
	if len(matches) > 3 || len(r.Nearest) != 5 {
		t.Errorf("%d matches and %d nearest, want 3 at most and 5", len(matches), len(r.Nearest))
	}
	seen := map[string]bool{}
	for _, c := range matches {
		seen[c.URI] = true
	}
	for _, n := range r.Nearest {
		if seen[n.URI] {
			t.Errorf("%q is listed twice", n.Title)
		}
		seen[n.URI] = true
	}
	if r, _ := w.search(api.SearchRequest{Query: "Water plant 7"}); r.Confidence != api.ConfidenceSure || r.Nearest != nil {
		t.Errorf("the search by a title is %s with %d nearest, want it sure without any", r.Confidence, len(r.Nearest))
	}
	none, _ := w.search(api.SearchRequest{Query: "xqzzy blorft"})
	if none.Confidence != api.ConfidenceNone || none.NextCall == nil {
		t.Errorf("gibberish is %s, want none with the call that refines", none.Confidence)
	}
}

func TestASearchReplyIsShort(t *testing.T) {
	for name, tc := range map[string]struct {
		threshold  float64
		query      string
		most       int // tokens
		candidates int
	}{
		"five candidates": {0.99, "quarterly report sales", 700, 5},
		"one":             {0.3, "Rotate the signing keys", 350, 1},
	} {
		w := newWorld(t, func(o *library.Options) { o.ScoreThreshold = tc.threshold })
		for i := range 60 {
			w.mint(fmt.Sprintf("# Prepare the quarterly report of region %d\n\nCollects the figures of a region and sends them to those who asked for them.\n\n## Count\n\nSales.\n", i))
		}
		w.mint("# Rotate the signing keys\n\nReplaces a key.\n\n## Make one\n\nKey.\n")
		r, matches := w.search(api.SearchRequest{Query: tc.query})
		b, err := json.Marshal(r)
		if n := len(matches) + len(r.Nearest); err != nil || n != tc.candidates || len(b)/4 > tc.most {
			t.Errorf("%s: the reply has %d candidates and %d tokens (%v), want %d and at most %d:\n%s", name, n, len(b)/4, err, tc.candidates, tc.most, b)
		}
	}
}

func TestTheCallOfASureMatchAsksForItsInputs(t *testing.T) {
	w := newWorld(t, nil)
	mint := func(title, inputs string) api.MintReply {
		t.Helper()
		r, err := w.Mint(t.Context(), w.caller, api.MintRequest{
			Document: "# " + title + "\n\n```json\n{\"inputs\":" + inputs + "}\n```\n\n## Only\n\nDo it.\n", ModelID: "test",
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for title, tc := range map[string]struct{ inputs, form string }{
		"Greet a guest": {
			`{"type":"object","required":["name","days"],"properties":{"name":{"type":"string","description":"Who <it> is"},"days":{"type":"integer"},"tone":{"type":"string"}}}`,
			`{"days":"<integer>","name":"<string: Who <it> is>"}`,
		},
		"Water the basil":  {`{"type":"object","properties":{"litres":{"type":"number"}}}`, ""},
		"Paint every wall": {`{"type":"object","required":["colour"],"properties":{"colour":{"enum":["` + strings.Repeat(`x","`, 9) + `y"],"description":"` + strings.Repeat("z", 300) + `"}}}`, `{"colour":"<one of`},
		"Fill in a survey": {`{"type":"object","required":["` + strings.Repeat("q", 3000) + `"]}`, ""},
	} {
		minted := mint(title, tc.inputs)
		uri := minted.Items[0].URI
		r, matches := w.search(api.SearchRequest{Query: title})
		if r.Confidence != api.ConfidenceSure || len(matches) == 0 {
			t.Fatalf("Search(%q) is %s", title, r.Confidence)
		}
		call, action := `{"uri":"`+uri+`"}`, "call kairos_begin with "+uri
		if tc.form != "" {
			call, action = `{"input":`+tc.form, action+" and input "+tc.form
		}
		if got := string(r.NextCall.Arguments); !strings.HasPrefix(got, call) || !strings.Contains(got, uri) {
			t.Errorf("Search(%q): next_call has %s, want %s", title, got, call)
		}
		if got := matches[0].NextAction; !strings.HasPrefix(got, action) || tc.form == "" && got != action {
			t.Errorf("Search(%q): the choice says %q, want %q", title, got, action)
		}
		if diff := cmp.Diff(r.NextCall, minted.NextCall); diff != "" {
			t.Errorf("mint and search give different calls of %q (-search +mint):\n%s", title, diff)
		}
	}
}

func TestMatchesAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	w.reports()
	for limit, want := range map[int]int{0: 5, 1: 1, 7: 7, 10: 10} {
		if _, matches := w.search(api.SearchRequest{Query: "Report", Limit: limit}); len(matches) != want {
			t.Errorf("limit %d: %d matches, want %d", limit, len(matches), want)
		}
	}
	if _, matches := w.search(api.SearchRequest{Query: "figures", Limit: 10}); len(matches) != 3 {
		t.Errorf("%d matches while none is sure, want 3", len(matches))
	}
	for _, in := range []api.SearchRequest{
		{Query: "x", Limit: -1},
		{Query: "x", Limit: 11},
		{Query: "x", Queries: strings.Fields("a b c d e f")},
		{Query: " ", Queries: []string{"Report"}},
	} {
		if _, err := w.Search(t.Context(), w.caller, in); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("Search(%+v): %v, want INVALID_ARGUMENT", in, err)
		}
	}
}

// Copies of a protocol are one match.
func TestCopiesInOtherSpacesHideNoMatch(t *testing.T) {
	w := newWorld(t, nil)
	w.reports()
	var changes []library.Change
	for i := range 8 {
		space := fmt.Sprintf("group:g%d", i)
		copied := storetest.NewChain(space, "Otter report", "Count")
		copied.Steps[0].UUID = "7d4c320a-909c-459a-ad77-ff426a1c8a48"
		changes = append(changes, library.Change{Chain: copied})
		w.caller.Groups = append(w.caller.Groups, space)
	}
	if _, err := w.store.SaveChains(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	_, matches := w.search(api.SearchRequest{Query: "Report", Queries: []string{"Otter report"}, Limit: 10})
	copies := 0
	for _, m := range matches {
		if *m.ChainLabel == "Otter report" {
			copies++
		}
	}
	if copies != 1 || len(matches) != 3 {
		t.Errorf("matches = %+v, want three, and the protocol with copies once", matches)
	}
}

func TestAProtocolCountsWithTheTextThatFitsBest(t *testing.T) {
	w := newWorld(t, nil)
	first := w.reports()
	r, matches := w.search(api.SearchRequest{Query: "somebody wants xqzzy", Queries: []string{" ", "report", "June report"}})
	if r.Confidence != api.ConfidencePerhaps || len(matches) != 3 {
		t.Fatalf("%s with %d matches, want perhaps with 3: two titles were said", r.Confidence, len(matches))
	}
	if got := []string{*matches[0].ChainLabel, *matches[1].ChainLabel}; got[0] != "Report" || got[1] != "June report" {
		t.Errorf("best matches %q, want the two that were named", got)
	}
	seen := map[string]bool{}
	for _, c := range matches {
		if seen[c.URI] {
			t.Errorf("%s is there twice", c.URI)
		}
		seen[c.URI] = true
	}
	if r, _ := w.search(api.SearchRequest{Query: "xqzzy", Queries: []string{"report"}}); r.NextCall == nil || !strings.Contains(string(r.NextCall.Arguments), first) {
		t.Errorf("next_call %+v, want begin of %s: a rephrasing names it", r.NextCall, first)
	}
}

func TestChoicesSayWhatHelpsToChoose(t *testing.T) {
	w := newWorld(t, nil)
	w.reports()
	_, matches := w.search(api.SearchRequest{Query: "Report"})
	for _, c := range matches {
		if c.Description != "" {
			t.Errorf("description %q where there is no choice to make", c.Description)
		}
	}
	_, matches = w.search(api.SearchRequest{Query: "week away"})
	if len(matches) != 1 || matches[0].Description != "Write the figures of the week down," {
		t.Errorf("matches %+v, want one, described by the first line", matches)
	}
	_, matches = w.search(api.SearchRequest{Query: "words"})
	for _, c := range matches {
		if n := len([]rune(c.Description)); n == 0 || n > 60 || !strings.HasSuffix(c.Description, "…") {
			t.Errorf("description %q has %d characters, want at most 60 and a sign that it was cut", c.Description, n)
		}
		if fmt.Sprint(c.Tags) != "[]" || c.Tags == nil {
			t.Errorf("tags %v of a match, want none", c.Tags)
		}
	}
}

func TestSearchAlwaysOffersRefineAndCreate(t *testing.T) {
	w := newWorld(t, nil)
	w.mint(threeSteps)
	for query, matches := range map[string]int{"Three Steps": 1, "xqzzy blorft": 0} {
		r, err := w.Search(t.Context(), w.caller, api.SearchRequest{Query: query})
		if err != nil {
			t.Fatal(err)
		}
		var roles []string
		for _, c := range r.Choices {
			roles = append(roles, c.Role)
		}
		want := append(strings.Fields(strings.Repeat("match ", matches)), "refine", "create")
		if diff := cmp.Diff(want, roles); diff != "" {
			t.Errorf("Search(%q) roles (-want +got):\n%s", query, diff)
		}
	}
	if _, err := w.Search(t.Context(), w.caller, api.SearchRequest{Query: "x", Space: "user:test:you"}); fault.CodeOf(err) != fault.Forbidden {
		t.Errorf("Search in a foreign space: %v, want FORBIDDEN", err)
	}
}
