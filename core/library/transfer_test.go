package library_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
)

// ignoreRevision: a store counts versions for itself.
var ignoreRevision = cmpopts.IgnoreFields(library.Record{}, "Revision")

func exported(t *testing.T, w *world, history bool) []library.Written {
	t.Helper()
	var out []library.Written
	for p, err := range w.Export(t.Context(), w.caller, library.ExportInput{History: history}) {
		if err != nil {
			t.Fatalf("Export: %v", err)
		}
		out = append(out, p)
	}
	return out
}

func itemsOf(all []library.Written) []library.ImportItem {
	items := make([]library.ImportItem, len(all))
	for i := range all {
		items[i] = library.ImportItem{Document: all[i].Document, Record: &all[i].Record, Older: all[i].Older}
	}
	return items
}

func imported(t *testing.T, w *world, in library.ImportInput) []library.ImportResult {
	t.Helper()
	results, err := w.Import(t.Context(), w.caller, in)
	if err != nil {
		t.Fatalf("Import: %v", err)
	}
	return results
}

func statuses(results []library.ImportResult) []library.ImportStatus {
	out := make([]library.ImportStatus, len(results))
	for i, r := range results {
		out[i] = r.Status
	}
	return out
}

func TestImportStoresWhatExportWrote(t *testing.T) {
	from, to := newWorld(t, nil), newWorld(t, nil)
	from.mint(threeSteps)
	from.machine.Pass(time.Hour)
	from.mint("---\nslug: two\n---\n# Two\n\nabout\n\n## A\na\n\n## A\nb\n")
	from.mint("# One text\n\nbody\n")
	from.machine.Pass(time.Hour)
	from.mint(strings.Replace(threeSteps, "body two", "body two, changed", 1))
	from.mint(strings.Replace(threeSteps, "body two", "body two, changed again", 1))
	want := exported(t, from, true)
	if len(want) != 3 || len(want[1].Older) != 2 {
		t.Fatalf("exported %d protocols, the second with %d older versions; want 3 and 2", len(want), len(want[1].Older))
	}
	step := want[0].Record.Steps[0].UUID
	want[0].Record.Quality = map[string]api.Quality{step: {
		Score: 4, Tier: "high", RetrievalCount: 3, SuccessCount: 2, PartialCount: 1, FailureCount: 5, QualityBonus: 1.5,
		LastRated: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), LastRater: "somebody", UsageContext: "test",
	}}
	results := imported(t, to, library.ImportInput{Items: itemsOf(want)})
	if diff := cmp.Diff([]library.ImportStatus{library.Stored, library.Stored, library.Stored}, statuses(results)); diff != "" {
		t.Fatalf("first import (-want +got):\n%s %+v", diff, results)
	}
	if diff := cmp.Diff(want, exported(t, to, true), ignoreRevision, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("exported again (-want +got):\n%s", diff)
	}

	results = imported(t, to, library.ImportInput{Items: itemsOf(want)})
	if diff := cmp.Diff([]library.ImportStatus{library.Unchanged, library.Unchanged, library.Unchanged}, statuses(results)); diff != "" {
		t.Errorf("second import (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, exported(t, to, true), ignoreRevision, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("after the second import (-want +got):\n%s", diff)
	}
}

func TestAnInterruptedImportContinues(t *testing.T) {
	from, to := newWorld(t, nil), newWorld(t, nil)
	for i := range 3 {
		from.mint(strings.Replace(threeSteps, "body two", fmt.Sprint("body ", i), 1))
	}
	want := exported(t, from, true)
	part := itemsOf(want)
	part[0].Document, part[0].Record, part[0].Older = part[0].Older[1].Document, &part[0].Older[1].Record, part[0].Older[:1]
	imported(t, to, library.ImportInput{Items: part})
	results := imported(t, to, library.ImportInput{Items: itemsOf(want), OnExisting: library.FailOnExisting})
	if results[0].Status != library.Stored {
		t.Fatalf("the rest of the import = %+v, want it stored", results[0])
	}
	if diff := cmp.Diff(want, exported(t, to, true), ignoreRevision, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("exported again (-want +got):\n%s", diff)
	}
}

func TestImportOfWhatIsThereInAnotherVersion(t *testing.T) {
	other := strings.Replace(threeSteps, "body two", "other", 1)
	for existing, want := range map[library.Existing]library.ImportStatus{
		library.SkipExisting: library.Skipped, library.ReplaceExisting: library.Replaced, library.FailOnExisting: library.Failed,
	} {
		w := newWorld(t, nil)
		uris := w.mint(threeSteps)
		results := imported(t, w, library.ImportInput{Items: []library.ImportItem{{Document: other}}, OnExisting: existing, ModelID: "m"})
		if results[0].Status != want || want == library.Failed && fault.CodeOf(results[0].Err) != fault.DuplicateChain {
			t.Errorf("%s: %+v, want %s", existing, results[0], want)
		}
		now := exported(t, w, false)[0]
		if changed := strings.Contains(now.Document, "other"); changed != (want == library.Replaced) {
			t.Errorf("%s: stored is %q", existing, now.Document)
		}
		if got := "kairos://mem/" + now.Record.Steps[0].UUID; got != uris[0] {
			t.Errorf("%s: the first step is %s, want %s as before", existing, got, uris[0])
		}
	}
}

func TestABadDocumentDoesNotStopTheOthers(t *testing.T) {
	w := newWorld(t, nil)
	results := imported(t, w, library.ImportInput{Items: []library.ImportItem{
		{Document: "# A\n\n## S\n\n```json\n{\"challenge\": {\n```\n"}, {Document: "# B\n\n## S\nx\n\n# C\n\n## S\ny\n"}, {Document: ""},
		{Document: "# b\n\n## S\nanother\n"},
	}})
	want := []library.ImportStatus{library.Failed, library.Stored, library.Failed, library.Failed}
	if diff := cmp.Diff(want, statuses(results)); diff != "" {
		t.Errorf("results (-want +got):\n%s %+v", diff, results)
	}
	if n := len(exported(t, w, false)); n != 2 {
		t.Errorf("%d protocols are stored, want 2", n)
	}
}

func TestImportBelievesNoRecord(t *testing.T) {
	from := newWorld(t, nil)
	from.mint(threeSteps)
	from.mint("# Other\n\n## S\nx\n")
	for name, tc := range map[string]struct {
		spoil func(three, other *library.Record)
		want  string
	}{
		"another protocol":       {func(r, _ *library.Record) { r.ChainID = "6929eee2-bf5b-516c-8fca-294a4bfe72c0" }, "another protocol"},
		"a foreign space":        {func(r, _ *library.Record) { r.Space = "user:test:you" }, "may not write"},
		"the space of built-ins": {func(r, _ *library.Record) { r.Space = access.AppSpace }, "may not write"},
		"no UUID":                {func(r, _ *library.Record) { r.Steps[0].UUID = "../../etc" }, "UUID of step 1"},
		"upper case":             {func(r, _ *library.Record) { r.Steps[0].UUID = strings.ToUpper(r.Steps[0].UUID) }, "UUID of step 1"},
		"a UUID twice":           {func(r, _ *library.Record) { r.Steps[1].UUID = r.Steps[0].UUID }, "twice"},
		"a built-in's":           {func(r, _ *library.Record) { r.Steps[0].UUID = "00000000-0000-0000-0000-000000002001" }, "built-in"},
		"another protocol's":     {func(r, o *library.Record) { r.Steps[0].UUID = o.Steps[0].UUID }, "belongs to"},
	} {
		t.Run(name, func(t *testing.T) {
			all := exported(t, from, false)
			other, three := &all[0], &all[1]
			tc.spoil(&three.Record, &other.Record)
			to := newWorld(t, nil)
			results := imported(t, to, library.ImportInput{Items: itemsOf(all)})
			if results[0].Status != library.Stored || results[1].Status != library.Failed || !strings.Contains(results[1].Err.Error(), tc.want) {
				t.Errorf("results = %+v, want the second refused with %q", results, tc.want)
			}
			// The same in two batches, so that only the store can know.
			to = newWorld(t, nil)
			imported(t, to, library.ImportInput{Items: itemsOf(all[:1])})
			results = imported(t, to, library.ImportInput{Items: itemsOf(all[1:])})
			if results[0].Status != library.Failed || !strings.Contains(results[0].Err.Error(), tc.want) {
				t.Errorf("alone: %+v, want %q", results[0], tc.want)
			}
		})
	}
}

func TestAnEditedExportKeepsTheStepsThatStayed(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	all := exported(t, w, false)
	all[0].Document = strings.Replace(all[0].Document, "## Second", "## New\n\nnew\n\n## Second", 1)
	results := imported(t, w, library.ImportInput{Items: itemsOf(all), OnExisting: library.ReplaceExisting})
	if results[0].Status != library.Replaced {
		t.Fatalf("Import = %+v", results[0])
	}
	steps := exported(t, w, false)[0].Record.Steps
	if len(steps) != 4 || "kairos://mem/"+steps[0].UUID != uris[0] || "kairos://mem/"+steps[2].UUID != uris[1] || "kairos://mem/"+steps[3].UUID != uris[2] {
		t.Errorf("steps = %+v, want a new one between %v", steps, uris)
	}
}

func TestAnEditedExportInAnotherScriptKeepsTheStepsThatStayed(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(doc("T", "Подготовка: a", "Сборка: b", "Выпуск: c"))
	all := exported(t, w, false)
	all[0].Document = doc("T", "Подготовка: a", "Проверка: x", "Сборка: b", "Выпуск: c")
	imported(t, w, library.ImportInput{Items: itemsOf(all), OnExisting: library.ReplaceExisting})
	steps := exported(t, w, false)[0].Record.Steps
	if len(steps) != 4 || "kairos://mem/"+steps[2].UUID != uris[1] || "kairos://mem/"+steps[3].UUID != uris[2] {
		t.Errorf("steps = %+v, want a new one between %v", steps, uris)
	}
}

func TestACancelledImportStoresNothingMore(t *testing.T) {
	w := newWorld(t, nil)
	w.mint("# First call\n\n## S\nx\n") // seeds the built-ins
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Import(ctx, w.caller, library.ImportInput{Items: []library.ImportItem{{Document: threeSteps}}}); err == nil {
		t.Error("Import with a cancelled context gave no error")
	}
	if n := len(exported(t, w, false)); n != 1 {
		t.Errorf("%d protocols are stored, want 1", n)
	}
}

func TestAnOlderVersionThatCannotBeStoredIsLeftOut(t *testing.T) {
	from, to := newWorld(t, nil), newWorld(t, nil)
	for i := range 3 {
		from.mint(strings.Replace(threeSteps, "body two", fmt.Sprint("body ", i), 1))
	}
	taken := to.mint("# Other\n\n## S\nx\n")
	all := exported(t, from, true)
	all[0].Older[1].Record.Steps[0].UUID = strings.TrimPrefix(taken[0], "kairos://mem/")
	results := imported(t, to, library.ImportInput{Items: itemsOf(all)})
	if results[0].Status != library.Stored {
		t.Errorf("Import = %+v, want it stored", results[0])
	}
	got := exported(t, to, true)
	if len(got) != 2 || got[1].Document != all[0].Document || len(got[1].Older) != 1 {
		t.Errorf("stored are %+v, want the newest version and the one that could be stored", got)
	}
}

func TestARecordClaimsNoMoreRatingsThanThereCanBe(t *testing.T) {
	from, to := newWorld(t, nil), newWorld(t, nil)
	from.mint(threeSteps)
	all := exported(t, from, false)
	all[0].Record.Quality = map[string]api.Quality{}
	for _, s := range all[0].Record.Steps {
		all[0].Record.Quality[s.UUID] = api.Quality{
			RetrievalCount: math.MaxInt64, SuccessCount: 1 << 40, PartialCount: -5, Tier: strings.Repeat("t", 1<<20), LastRater: strings.Repeat("r", 1<<20), UsageContext: strings.Repeat("c", 1<<20),
		}
	}
	imported(t, to, library.ImportInput{Items: itemsOf(all)})
	for _, q := range exported(t, to, false)[0].Record.Quality {
		if q.PartialCount < 0 || len(q.Tier)+len(q.LastRater)+len(q.UsageContext) > 2000 {
			t.Errorf("stored is a quality with %d partial and texts of %d, %d, %d bytes", q.PartialCount, len(q.Tier), len(q.LastRater), len(q.UsageContext))
		}
	}
}

func TestImportComparesWhatCountsAndTitlesFiles(t *testing.T) {
	w := newWorld(t, nil)
	spaced := "# Spaced\n\n## 3-way merge\n\nx\n\n```json\n{ \"challenge\": { \"type\": \"comment\",\n   \"comment\": { \"min_length\": 20 } } }\n```\n"
	in := library.ImportInput{ModelID: "m", Items: []library.ImportItem{
		{Document: spaced, File: "spaced.md"},
		{Document: "| Action | A |\n|---|---|\n| do | x |\n", File: "runbooks/pe01.md"},
		{Document: "| Action | B |\n|---|---|\n| do | y |\n", File: "runbooks/pe02.md"},
		{Document: "## Reason\n\nx\n", File: "cache.md"}, {Document: "## Reason\n\ny\n", File: "registry.md"},
	}}
	for _, want := range []library.ImportStatus{library.Stored, library.Unchanged} {
		for i, r := range imported(t, w, in) {
			if r.Status != want {
				t.Errorf("%s: %s, %v, want %s", in.Items[i].File, r.Status, r.Err, want)
			}
		}
	}
	var titles []string
	for _, p := range exported(t, w, false) {
		titles = append(titles, p.Record.Title)
	}
	if got := strings.Join(titles, " "); got != "Spaced cache pe01 pe02 registry" {
		t.Errorf("titles = %s", got)
	}
}
