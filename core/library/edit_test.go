package library_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

func TestARemintKeepsTheIdsOfStepsThatAreRecognisable(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after []string
		want          []int // for each step after, the one before whose id it has; -1: none
	}{
		"the same":                    {[]string{"A: a", "B: b"}, []string{"A: a", "B: b"}, []int{0, 1}},
		"another body":                {[]string{"A: a", "B: b"}, []string{"A: a", "B: other"}, []int{0, 1}},
		"swapped":                     {[]string{"A: a", "B: b", "C: c"}, []string{"C: c", "A: a", "B: b"}, []int{2, 0, 1}},
		"another heading":             {[]string{"A: a", "B: b", "C: c"}, []string{"A: a", "Bee: b", "C: c"}, []int{0, 1, 2}},
		"another heading and place":   {[]string{"A: a", "B: b", "C: c"}, []string{"A: a", "C: c", "Bee: b"}, []int{0, 2, 1}},
		"rewritten in its place":      {[]string{"A: a", "B: b", "C: c"}, []string{"A: a", "X: x", "C: c"}, []int{0, 1, 2}},
		"one inserted":                {[]string{"A: a", "B: b"}, []string{"A: a", "X: x", "B: b"}, []int{0, -1, 1}},
		"one rewritten, one inserted": {[]string{"A: a", "B: b", "C: c"}, []string{"A: a", "X: x", "Y: y", "C: c"}, []int{0, -1, -1, 2}},
		"one removed":                 {[]string{"A: a", "B: b", "C: c"}, []string{"A: a", "C: c"}, []int{0, 2}},
		"the first removed":           {[]string{"A: a", "B: b"}, []string{"B: b"}, []int{1}},
		"another first":               {[]string{"A: a", "B: b"}, []string{"X: x", "Y: y", "B: b"}, []int{0, -1, 1}},
		"one before the first":        {[]string{"A: a", "B: b"}, []string{"X: x", "A: a", "B: b"}, []int{-1, 0, 1}},
		"the first of two alike gone": {[]string{"A: a", "A: b", "C: c"}, []string{"A: b", "C: c"}, []int{1, 2}},
		"two alike swapped":           {[]string{"A: a", "A: b"}, []string{"A: b", "A: a"}, []int{1, 0}},
		"everything else":             {[]string{"A: a", "B: b"}, []string{"X: x", "Y: y"}, []int{0, 1}},
		"another script, one inserted": {
			[]string{"Подготовка: a", "Сборка: b", "Выпуск: c"}, []string{"Подготовка: a", "Проверка: x", "Сборка: other", "Выпуск: c"}, []int{0, -1, 1, 2},
		},
		"another script, numbered anew": {
			[]string{"Начало: a", "Шаг 1 Сборка: b", "Шаг 2 Выпуск: c"}, []string{"Начало: a", "Шаг 1 Проверка: x", "Шаг 2 Сборка: b", "Шаг 3 Выпуск: c"}, []int{0, -1, 1, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			before := w.mint(doc("T", tc.before...))
			after := w.mint(doc("T", tc.after...))
			got := make([]int, len(after))
			for i, uri := range after {
				got[i] = -1
				for j, old := range before {
					if uri == old {
						got[i] = j
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("steps are (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeletingClosesTheGapOrTakesTheProtocol(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(doc("Four", "A: a", "B: b", "C: c", "D: d"))
	d, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: []string{uris[1], uris[1]}})
	if err != nil || d.TotalDeleted != 1 || !strings.Contains(d.Results[0].Message, "3 steps now") {
		t.Fatalf("Delete = %+v, %v", d, err)
	}
	for i, uri := range []string{uris[0], uris[2], uris[3]} {
		s, err := w.Dump(t.Context(), w.caller, api.DumpRequest{URI: uri})
		if err != nil || s.Position.StepIndex != i+1 || s.Position.StepCount != 3 {
			t.Errorf("%s is at %+v, %v, want %d of 3", uri, s.Position, err, i+1)
		}
	}
	// Clients purge by deleting what a search returned, and what they minted.
	d, err = w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: []string{uris[0], uris[2], uris[3]}})
	if err != nil || d.TotalDeleted != 3 || !strings.Contains(d.Results[0].Message, "kairos protocols restore") {
		t.Errorf("Delete of the whole = %+v, %v", d, err)
	}
	w.mint("# Uses\n\n## First\n\nx\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a\"}}}\n```\n\n## Make\n\nx\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a\"}}}\n```\n\n" +
		"## Take\n\nx\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"{{ steps.make.x }}\"}}}\n```\n")
	s, err := w.Search(t.Context(), w.caller, api.SearchRequest{Query: "Uses"})
	if err != nil {
		t.Fatal(err)
	}
	v, err := w.store.Chain(t.Context(), []string{w.caller.Space}, protocol.ChainID("Uses"))
	if err != nil || s.Choices[0].URI != protocol.URI(v.Steps[0].UUID) {
		t.Fatal(err)
	}
	if d, err = w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: []string{protocol.URI(v.Steps[1].UUID)}}); err != nil || d.TotalFailed != 1 || !strings.Contains(d.Results[0].Message, `"Take"`) {
		t.Errorf("Delete of a step that another needs = %+v, %v, want it refused by the name of that step", d, err)
	}
}

func TestUpdatesSetOnlyWhatTheyMay(t *testing.T) {
	for name, tc := range map[string]struct {
		updates string
		want    string // in the dump of the step, or in the error
		failed  bool
	}{
		"text keeps the challenge": {`{"text":"a new body"}`, "## Second\n\na new body\n\n```json\n{\"challenge\": {\"type\":\"shell\",\"shell\":{\"cmd\":\"b\"}}}", false},
		"text with a heading":      {`{"text":"## Renamed\n\nx"}`, "## Renamed\n\nx", false},
		"text with a challenge":    {`{"text":"x\n\n` + "```json\\n{\\\"challenge\\\":{\\\"type\\\":\\\"comment\\\",\\\"comment\\\":{}}}\\n```" + `"}`, `"type":"comment"`, false},
		"text between markers":     {`{"text":"no\n<!-- kairos:body-start -->\nyes\n<!--KAIROS:BODY-END-->\nno"}`, "## Second\n\nyes\n\n```", false},
		"label":                    {`{"label":"Anew"}`, "## Anew\n\nbody two\n\n```json\n{\"challenge\": {\"type\":\"shell\"", false},
		"challenge":                {`{"challenge":{"type":"comment","comment":{"min_length":7}}}`, `"min_length":7`, false},
		"no challenge":             {`{"challenge":null}`, "## Second\n\nbody two\n", false},
		"all three":                {`{"label":"L","text":"t","challenge":{"type":"comment","comment":{}}}`, "## L\n\nt\n\n```json\n{\"challenge\": {\"type\":\"comment\"", false},
		"space_id":                 {`{"text":"x","space_id":"group:a:b"}`, `"space_id" cannot be set`, true},
		"chain and memory_uuid":    {`{"chain":{},"memory_uuid":"x"}`, `"chain", "memory_uuid" cannot be set; only text, label and challenge can`, true},
		"no object":                {`[]`, "must be a JSON object", true},
		"text that is none":        {`{"text":7}`, "text must be a string that is not blank", true},
		"blank text":               {`{"text":" \n"}`, "text must be a string that is not blank", true},
		"blank label":              {`{"label":" "}`, "label must be", true},
		"a challenge that is none": {`{"challenge":"x"}`, "challenge must be a JSON object", true},
		"a refused challenge":      {`{"challenge":{"type":"shell","shell":{"bad":1}}}`, "is bad", true},
		"several headings":         {`{"text":"## A\n\nx\n\n## B\n\ny"}`, "would begin another step", true},
		"a heading below text":     {`{"text":"before\n\n## B\n\nafter"}`, "3:1: error: this heading would begin another step", true},
		"an underlined heading":    {`{"text":"before\n\nB\n---\nafter"}`, "would begin another step", true},
		"an H1 above the heading":  {`{"text":"# T\n\n## B\n\nafter"}`, "an H1 is the title of a protocol", true},
		"an H1 alone":              {`{"text":"# T\n\nafter"}`, "an H1 is the title of a protocol", true},
		"an H1 between markers":    {`{"text":"<!-- KAIROS:BODY-START -->\nx\n\n# T\n<!-- KAIROS:BODY-END -->"}`, "an H1 is the title of a protocol", true},
		"deeper headings":          {`{"text":"x\n\n### Deeper\n\n` + "```sh\\n# no heading\\n```" + `"}`, "### Deeper\n\n```sh\n# no heading\n```", false},
		"nothing":                  {`{}`, "nothing to update", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			uris := w.mint(threeSteps)
			before := w.dump(uris[0])
			u, err := w.Update(t.Context(), w.caller, api.UpdateRequest{URIs: uris[1:2], Updates: json.RawMessage(tc.updates)})
			d, dumped := w.Dump(t.Context(), w.caller, api.DumpRequest{URI: uris[1]})
			if dumped != nil {
				t.Fatal(dumped)
			}
			if !tc.failed {
				if err != nil || u.TotalUpdated != 1 || !strings.Contains(d.Document, tc.want) {
					t.Errorf("Update = %+v, %v; the step is\n%s\nwant %q in it", u, err, d.Document, tc.want)
				}
				return
			}
			if said := fmt.Sprint(u, err); !strings.Contains(said, tc.want) || u.TotalUpdated != 0 {
				t.Errorf("Update says %s, want %q", said, tc.want)
			}
			if after := w.dump(uris[0]); after != before {
				t.Errorf("a refused update changed the protocol to\n%s", after)
			}
		})
	}
}

func TestUpdateOfSeveralSteps(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint("---\nslug: three\ntags: [x, y]\n---\n" + threeSteps)
	in := api.UpdateRequest{URIs: []string{uris[0], uris[1], uris[2]}, Documents: []string{"## First\n\none", " ", "## Third\n\nthree"}}
	u, err := w.Update(t.Context(), w.caller, in)
	if err != nil || u.TotalUpdated != 2 || u.TotalFailed != 1 {
		t.Fatalf("Update = %+v, %v, want two steps updated and the one without a document failed", u, err)
	}
	for _, want := range []string{"slug: three\ntags: [x, y]", "\none\n", "body two\n", "\nthree\n"} {
		if d := w.dump(uris[1]); !strings.Contains(d, want) {
			t.Errorf("the protocol is\n%s\nwant %q in it", d, want)
		}
	}
	in.Documents = in.Documents[:2]
	if _, err := w.Update(t.Context(), w.caller, in); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("three uris and two documents: %v, want INVALID_ARGUMENT", err)
	}
}

func TestAnUpdateDropsNothingSilently(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	before := w.dump(uris[0])
	for name, in := range map[string]api.UpdateRequest{
		"a document and updates":           {URIs: uris[:1], Documents: []string{"## First\n\none"}, Updates: json.RawMessage(`{"text":"two"}`)},
		"fewer documents than uris":        {URIs: uris[:2], Documents: []string{"## First\n\none"}},
		"updates and one of two documents": {URIs: uris[:2], Documents: []string{" ", "## Second\n\none"}, Updates: json.RawMessage(`{"label":"L"}`)},
		"two documents for one step": {
			URIs: []string{uris[0], strings.ToUpper(uris[0][13:])}, Documents: []string{"## First\n\none", "## First\n\ntwo"},
		},
	} {
		if name == "two documents for one step" {
			in.URIs[1] = "kairos://mem/" + in.URIs[1]
		}
		_, err := w.Update(t.Context(), w.caller, in)
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != fault.InvalidArgument || f.NextAction == "" {
			t.Errorf("%s: %v, want INVALID_ARGUMENT and what to do", name, err)
		}
	}
	if after := w.dump(uris[0]); after != before {
		t.Errorf("a refused update changed the protocol to\n%s", after)
	}
	if u, err := w.Update(t.Context(), w.caller, api.UpdateRequest{URIs: uris[:1], Documents: []string{"## First\n\none"}, Updates: json.RawMessage(`{}`)}); err != nil || u.TotalUpdated != 1 {
		t.Errorf("a document beside empty updates = %+v, %v, want it stored", u, err)
	}
}

func TestAURIThatIsThereTwiceCountsOnce(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	twice := []string{uris[1], uris[1], "kairos://mem/" + strings.ToUpper(strings.TrimPrefix(uris[1], "kairos://mem/"))}
	for name, in := range map[string]api.UpdateRequest{
		"updates":         {URIs: twice, Updates: json.RawMessage(`{"text":"new"}`)},
		"equal documents": {URIs: twice, Documents: []string{"## S\n\nnew", "## S\n\nnew", "## S\n\nnew"}},
	} {
		u, err := w.Update(t.Context(), w.caller, in)
		if err != nil || u.TotalUpdated != 1 || u.TotalFailed != 0 || len(u.Results) != 1 {
			t.Errorf("Update by %s = %+v, %v, want one result", name, u, err)
		}
	}
	if got := len(revisions(t, w, "Three Steps")); got != 3 {
		t.Errorf("%d revisions after two updates, want 3", got)
	}
	d, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: twice})
	if err != nil || d.TotalDeleted != 1 || d.TotalFailed != 0 || len(d.Results) != 1 {
		t.Errorf("Delete = %+v, %v, want one result", d, err)
	}
	nowhere := "kairos://mem/99999999-9999-4999-8999-999999999999"
	d, err = w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: []string{nowhere, nowhere, "x", "x"}})
	if err != nil || d.TotalDeleted != 0 || d.TotalFailed != 2 {
		t.Errorf("Delete of missing protocols = %+v, %v, want each failed once", d, err)
	}
}

func TestNoUpdateIsLost(t *testing.T) {
	w := newWorld(t, nil)
	const writers = 8
	var list []string
	for i := range writers {
		list = append(list, fmt.Sprintf("S%d: old", i))
	}
	uris := w.mint(doc("Busy", list...))
	servers := []*library.Library{w.Library, w.another()}
	var all sync.WaitGroup
	for i, uri := range uris {
		all.Go(func() {
			u, err := servers[i%2].Update(context.Background(), w.caller, api.UpdateRequest{URIs: []string{uri}, Documents: []string{fmt.Sprintf("## S%d\n\nnew %d", i, i)}})
			if err != nil || u.TotalUpdated != 1 {
				t.Errorf("Update %d = %+v, %v", i, u, err)
			}
		})
	}
	all.Wait()
	d := w.dump(uris[0])
	for i := range uris {
		if !strings.Contains(d, fmt.Sprintf("new %d\n", i)) {
			t.Errorf("update %d is lost:\n%s", i, d)
		}
	}
	if got := len(revisions(t, w, "Busy")); got != writers+1 {
		t.Errorf("%d revisions, want %d", got, writers+1)
	}
}

func TestOfManyMintsOfOneTitleOneIsStored(t *testing.T) {
	w := newWorld(t, nil)
	servers := []*library.Library{w.Library, w.another()}
	results := mintAtOnce(w, servers, false)
	stored := 0
	for _, err := range results {
		var f *fault.Error
		switch {
		case err == nil:
			stored++
		case !errors.As(err, &f) || f.Code != fault.DuplicateChain || f.Details["items"] == nil:
			t.Errorf("Mint = %v, want DUPLICATE_CHAIN with the items that are stored", err)
		}
	}
	if stored != 1 || len(revisions(t, w, "Race")) != 1 {
		t.Errorf("%d mints were stored, want 1", stored)
	}
}

func TestManyForcedMintsOfOneTitleAreStoredOneAfterTheOther(t *testing.T) {
	w := newWorld(t, nil)
	servers := []*library.Library{w.Library, w.another()}
	results := mintAtOnce(w, servers, true)
	for i, err := range results {
		if err != nil {
			t.Errorf("Mint %d = %v", i, err)
		}
	}
	if got := len(revisions(t, w, "Race")); got != len(results) {
		t.Errorf("%d revisions, want %d: every mint is in the history", got, len(results))
	}
}

func mintAtOnce(w *world, servers []*library.Library, force bool) []error {
	results := make([]error, 8)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			_, results[i] = servers[i%len(servers)].Mint(context.Background(), w.caller, api.MintRequest{
				Document: doc("Race", fmt.Sprintf("S: %d", i)), ModelID: "m", Force: force,
			})
		})
	}
	all.Wait()
	return results
}

func TestBuiltInsOfAnotherVersionAreReplacedOnce(t *testing.T) {
	w := worldOn(t, filepath.Join(t.TempDir(), "kairos.db"), nil)
	const refine = "00000000-0000-0000-0000-000000002002"
	const title = "Get help refining your search"
	old := protocol.Chain{
		ID: protocol.ChainID(title), Space: access.AppSpace, Title: title,
		Steps: []protocol.Step{
			{UUID: refine, Label: "Search again", Name: "search_again", Text: "## Search again\n\nold"},
			{UUID: "44444444-4444-4444-8444-444444444444", Label: "Gone", Name: "gone", Text: "## Gone\n\nx"},
		},
	}
	if _, err := w.store.SaveChains(t.Context(), []library.Change{{Chain: old}}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, server := range []*library.Library{w.Library, w.another(), w.another()} {
		all.Go(func() {
			d, err := server.Dump(context.Background(), w.caller, api.DumpRequest{URI: "kairos://mem/" + refine})
			if err != nil || d.Label != "Extract what the user wants" || d.Position.StepIndex != 1 {
				t.Errorf("the head of the built-in is %+v, %v, want the first step of this version", d, err)
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff([]int64{2, 1}, revisions(t, w, title)); diff != "" {
		t.Errorf("revisions (-want +got): stored by more than one\n%s", diff)
	}
}

func TestTitlesOfSpacesComeInPages(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Groups = []string{"group:test:devs"}
	for i := range 5 {
		space := []string{"", "devs"}[i%2]
		if _, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: doc(fmt.Sprintf("P%d", i), "A: a"), ModelID: "m", Force: true, Space: space}); err != nil {
			t.Fatal(err)
		}
	}
	for limit := 1; limit <= 8; limit++ {
		var titles []string
		in := api.SpacesRequest{Titles: true, Limit: limit}
		for pages := 1; ; pages++ {
			r, err := w.Spaces(t.Context(), w.caller, in)
			if err != nil || pages > 10 {
				t.Fatalf("limit %d, page %d: %v", limit, pages, err)
			}
			n := 0
			for i, s := range r.Spaces {
				if want := []int{3, 2, 2}[i]; s.ChainCount != want {
					t.Errorf("limit %d: %s has %d protocols, want %d on every page", limit, s.Name, s.ChainCount, want)
				}
				for _, ch := range s.Chains {
					titles = append(titles, s.Name+"/"+ch.Title)
					n++
				}
			}
			if n > limit {
				t.Errorf("a page of at most %d has %d titles", limit, n)
			}
			if in.Cursor = r.NextCursor; in.Cursor == "" {
				break
			}
		}
		want := []string{"Personal/P0", "Personal/P2", "Personal/P4", "Group: devs/P1", "Group: devs/P3",
			"Kairos app/Create New KAIROS Protocol Chain", "Kairos app/Get help refining your search"}
		if diff := cmp.Diff(want, titles); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
	r, err := w.Spaces(t.Context(), w.caller, api.SpacesRequest{Titles: true, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	other := access.Caller{Principal: "you", Space: "user:test:you"}
	for _, cursor := range []string{r.NextCursor, "nonsense", "!"} {
		if _, err := w.Spaces(t.Context(), other, api.SpacesRequest{Titles: true, Cursor: cursor}); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("a foreign cursor %q: %v, want INVALID_ARGUMENT", cursor, err)
		}
	}
}

// stuckProtocols answers no read before its caller gives up.
type stuckProtocols struct {
	library.Protocols
	reading chan struct{}
}

func (s stuckProtocols) Chain(ctx context.Context, _ []string, _ string) (protocol.Chain, error) {
	s.reading <- struct{}{}
	<-ctx.Done()
	return protocol.Chain{}, ctx.Err()
}

// lostProtocols are those of a store that cannot be reached.
type lostProtocols struct{ library.Protocols }

func (lostProtocols) Chain(context.Context, []string, string) (protocol.Chain, error) {
	return protocol.Chain{}, fault.New(fault.StoreUnavailable, "the store cannot be reached")
}

func TestAMintThatCannotReadTheStoreSaysThatNothingIsStored(t *testing.T) {
	w := newWorld(t, nil)
	e := library.New(library.Store{Protocols: lostProtocols{w.store}, Writer: w.store, Ratings: w.store}, w.setups, library.Options{}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = e.Close() })
	_, err := e.Mint(t.Context(), w.caller, api.MintRequest{Document: "# One\n\n## Step\n\nDo it.\n", ModelID: "m"})
	if fault.CodeOf(err) != fault.StoreUnavailable || !strings.Contains(err.Error(), "nothing was stored") {
		t.Errorf("Mint = %v, want STORE_UNAVAILABLE that says that nothing was stored", err)
	}
}

func TestNobodyWaitsForTheFirstCallOfAnother(t *testing.T) {
	w := newWorld(t, nil)
	stuck := stuckProtocols{w.store, make(chan struct{}, 2)}
	e := library.New(library.Store{Protocols: stuck, Writer: w.store, Ratings: w.store}, w.setups, library.Options{}, slog.New(slog.DiscardHandler))
	first, giveUp := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = e.Spaces(first, w.caller, api.SpacesRequest{})
	}()
	<-stuck.reading
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	second := make(chan error)
	go func() {
		_, err := e.Spaces(impatient, w.caller, api.SpacesRequest{})
		second <- err
	}()
	select {
	case err := <-second:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Spaces = %v, want context.Canceled", err)
		}
		giveUp()
	case <-time.After(time.Minute):
		t.Error("a cancelled call waits for the first call of another")
		giveUp()
		<-second
	}
	<-ended
}
