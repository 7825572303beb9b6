package library_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
)

// TestATitleThatLooksLikeAnotherIsRefused: a reader could not tell which protocol an
// agent begins.
func TestATitleThatLooksLikeAnotherIsRefused(t *testing.T) {
	for _, stored := range []string{"Deploy the shop", "Dеploy the shop"} { // the second with a Cyrillic letter
		for name, title := range map[string]string{
			"zero width":  "De\u200bploy the shop",
			"soft hyphen": "Deploy the shop\u00ad",
			"filler":      "Deploy\u3164 the shop",
			"override":    "\u202dDeploy the shop\u202c",
			"tags":        "Deploy the shop\U000e0041\U000e0042",
			"Cyrillic":    "Depl\u043ey the sh\u043ep",
			"full width":  "Ｄｅｐｌｏｙ the shop",
			"Latin":       "deploy  the SHOP",
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, nil)
				w.mint("# " + stored + oneStep)
				document := "# " + title + oneStep
				_, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: document})
				if code := fault.CodeOf(err); code != fault.SimilarMemoryFound && code != fault.DuplicateChain {
					t.Errorf("Mint(%q) = %v, want SIMILAR_MEMORY_FOUND", title, err)
				}
				results := imported(t, w, library.ImportInput{Items: []library.ImportItem{{Document: document}}})
				if results[0].Status == library.Stored {
					t.Errorf("Import(%q) = %+v, want it refused", title, results[0])
				}
				if _, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: document, Force: true}); err != nil {
					t.Errorf("Mint(%q) with force = %v", title, err)
				}
			})
		}
	}
}

func TestTitlesThatLookAlikeAreNotTakenTogether(t *testing.T) {
	w := newWorld(t, nil)
	one, two := "# Copy"+oneStep, "# C\u043epy"+oneStep
	if _, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: one + "\n" + two}); fault.CodeOf(err) != fault.SimilarMemoryFound {
		t.Errorf("Mint of both = %v, want SIMILAR_MEMORY_FOUND", err)
	}
	both := []library.ImportItem{{Document: one}, {Document: two}}
	results := imported(t, w, library.ImportInput{Items: both, OnExisting: library.SkipExisting})
	if results[0].Status != library.Stored || results[1].Status != library.Failed || !strings.Contains(results[1].Err.Error(), "--on-existing replace") {
		t.Errorf("Import of both = %+v, want the second refused", results)
	}
	results = imported(t, w, library.ImportInput{Items: both, OnExisting: library.ReplaceExisting})
	if results[1].Status != library.Stored {
		t.Errorf("Import that replaces = %+v, want both stored", results)
	}
	// What can be told apart is imported: kairos_mint asks, an import does not.
	results = imported(t, w, library.ImportInput{Items: []library.ImportItem{{Document: "# Copy!" + oneStep}}})
	if results[0].Status != library.Stored {
		t.Errorf("Import of another title = %+v", results)
	}
}

func TestATitleThatCannotBeSeenIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	for _, title := range []string{"\u200b", "\u3164\u2800", "\U000e0041", "\u00ad \u00a0", "\ufffd"} {
		for _, force := range []bool{false, true} {
			if _, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: "# " + title + "\n\n## Step\n\nbody\n", Force: force}); err == nil || !strings.Contains(err.Error(), "needs a title") {
				t.Errorf("Mint(# %q) = %v, want that it needs a title", title, err)
			}
		}
	}
	uri := w.mint("# Seen" + oneStep)[0]
	for _, updates := range []string{`{"label":"\u200b"}`, `{"text":"\u2800\n"}`} {
		if reply, err := w.Update(t.Context(), w.caller, api.UpdateRequest{URIs: []string{uri}, Updates: []byte(updates)}); err == nil {
			t.Errorf("Update(%s) = %+v, want it refused", updates, reply)
		}
	}
}
