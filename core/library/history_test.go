package library_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const another = "# Three Steps\n\n## First\n\nbody one, changed\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a\"}}}\n```\n\n## Last\n\nnew\n"

func revisions(t *testing.T, w *world, ref string) []int64 {
	t.Helper()
	h, err := w.History(t.Context(), w.caller, ref)
	if err != nil {
		t.Fatal(err)
	}
	var out []int64
	for _, v := range h.Versions {
		if v.Deleted {
			v.Revision = -v.Revision
		}
		out = append(out, v.Revision)
	}
	return out
}

func (w *world) dump(uri string) string {
	w.t.Helper()
	d, err := w.Dump(w.t.Context(), w.caller, api.DumpRequest{URI: uri, Protocol: true})
	if err != nil {
		w.t.Fatalf("Dump(%s): %v", uri, err)
	}
	return d.Document
}

func TestEveryChangeKeepsTheVersionBefore(t *testing.T) {
	w := newWorld(t, nil)
	first := w.mint(threeSteps)
	documents := []string{w.dump(first[0])}
	second := w.mint(another)
	documents = append(documents, w.dump(second[0]))
	if u, err := w.Update(t.Context(), w.caller, api.UpdateRequest{URIs: second[1:], Documents: []string{"## Last\n\nnewer\n"}}); err != nil || u.TotalFailed > 0 {
		t.Fatalf("Update = %+v, %v", u, err)
	}
	documents = append(documents, w.dump(second[0]))
	if d, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: second[1:]}); err != nil || d.TotalFailed > 0 {
		t.Fatalf("Delete = %+v, %v", d, err)
	}
	documents = append(documents, w.dump(second[0]))
	if d, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: second[:1]}); err != nil || d.TotalFailed > 0 {
		t.Fatalf("Delete = %+v, %v", d, err)
	}
	for _, ref := range []string{"Three Steps", "three  STEPS", protocol.ChainID("Three Steps"), first[0], first[0][len("kairos://mem/"):], first[2], second[1]} {
		if diff := cmp.Diff([]int64{-5, 4, 3, 2, 1}, revisions(t, w, ref)); diff != "" {
			t.Errorf("History(%q), deletions negative (-want +got):\n%s", ref, diff)
		}
		for i, want := range documents {
			v, err := w.Version(t.Context(), w.caller, ref, int64(i+1))
			if err != nil || v.Document != want {
				t.Errorf("Version(%q, %d) = %q, %v, want %q", ref, i+1, v.Document, err, want)
			}
		}
	}
	if v, err := w.Version(t.Context(), w.caller, first[0], 0); err != nil || v.Revision != 4 {
		t.Errorf("Version of a deleted protocol without a revision = %+v, %v, want the last one", v, err)
	}
	if _, err := w.Version(t.Context(), w.caller, first[0], 5); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Version of the deletion: %v, want NOT_FOUND", err)
	}
}

func TestRestoreBringsBackStepsUnderTheirOldURIs(t *testing.T) {
	w := newWorld(t, nil)
	first := w.mint(threeSteps)
	before := w.dump(first[0])
	w.mint(another)
	r, err := w.Restore(t.Context(), w.caller, "Three Steps", 0)
	if err != nil || r.Restored != 1 || !r.Changed || len(r.Warnings) > 0 {
		t.Fatalf("Restore = %+v, %v, want revision 1 stored again", r, err)
	}
	for i, uri := range first {
		if r.Items[i].URI != uri || w.dump(uri) != before {
			t.Errorf("step %d is %s and dumps\n%s\nwant %s and\n%s", i+1, r.Items[i].URI, w.dump(uri), uri, before)
		}
	}
	if diff := cmp.Diff([]int64{3, 2, 1}, revisions(t, w, first[0])); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
	if r, err := w.Restore(t.Context(), w.caller, first[0], 1); err != nil || r.Changed {
		t.Errorf("Restore of what is stored = %+v, %v, want nothing changed", r, err)
	}
	if _, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: first[:1]}); err != nil {
		t.Fatal(err)
	}
	if r, err := w.Restore(t.Context(), w.caller, first[1], 0); err != nil || !r.Changed || w.dump(first[2]) != before {
		t.Errorf("Restore of a deleted protocol = %+v, %v", r, err)
	}
	if _, _, err := w.FindStep(t.Context(), w.caller, first[0]); err != nil {
		t.Errorf("the first step cannot be begun: %v", err)
	}
}

func TestRestoreAfterADeletionBringsBackTheURIs(t *testing.T) {
	w := newWorld(t, nil)
	first := w.mint(threeSteps)
	if _, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: first[:1]}); err != nil {
		t.Fatal(err)
	}
	w.mint(threeSteps)
	r, err := w.Restore(t.Context(), w.caller, "Three Steps", 1)
	if err != nil || !r.Changed || r.Items[1].URI != first[1] {
		t.Fatalf("Restore = %+v, %v, want the steps under the URIs %v", r, err, first)
	}
	w.dump(first[2])
}

func TestRestoreWorksThoughADriverBecameStricterOrIsBroken(t *testing.T) {
	for _, knob := range []string{"strict shell", "shell"} {
		w := newWorld(t, nil)
		uris := w.mint(threeSteps)
		w.mint(another)
		w.drivers[knob] = true
		r, err := w.Restore(t.Context(), w.caller, uris[0], 1)
		if err != nil || !r.Changed || len(r.Warnings) == 0 || r.Warnings[0].Severity != driver.SeverityWarning {
			t.Errorf("%s: Restore = %+v, %v, want it stored with a warning", knob, r, err)
		}
		if !strings.Contains(w.dump(uris[0]), "body three") {
			t.Errorf("%s: not restored", knob)
		}
	}
}

func TestWhatCannotBeRestoredIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.mint(threeSteps)
	for name, tc := range map[string]struct {
		ref      string
		revision int64
		want     fault.Code
	}{
		"no such protocol":  {"Nobody", 0, fault.NotFound},
		"no reference":      {"  ", 0, fault.InvalidArgument},
		"no such revision":  {"Three Steps", 9, fault.NotFound},
		"no version before": {"Three Steps", 0, fault.NotFound},
		"a built-in":        {"Create New KAIROS Protocol Chain", 1, fault.SpaceReadOnly},
	} {
		if _, err := w.Restore(t.Context(), w.caller, tc.ref, tc.revision); fault.CodeOf(err) != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}
