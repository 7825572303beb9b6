package library_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

// Each limit is stated by the error, and what is refused leaves nothing behind.
func TestBadDocumentsAreRefusedWithTheLimitAndNothingIsStored(t *testing.T) {
	w := newWorld(t, nil)
	for name, tc := range map[string]struct{ document, want string }{
		"more than 10 MiB":       {doc("Huge", "A: "+strings.Repeat("x", 10<<20)), "at most 10485760"},
		"a text of 1 MiB":        {doc("Text", "A: "+strings.Repeat("x", 1<<20)), "at most 1048576"},
		"more than 10,000 steps": {doc("Many", manySteps(10_001)...), "10000"},
		"NUL":                    {doc("Nul", "A: a\x00b"), "NUL"},
		"invalid UTF-8":          {doc("Bytes", "A: \xff\xfe"), "UTF-8"},
		"deep lists":             {doc("Deep", "A: "+strings.Repeat("- ", 10_000)+"x"), "deeper than 200"},
		"duplicate JSON keys":    {doc("Twice", "A: x\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"type\":\"comment\",\"shell\":{}}}\n```"), "type"},
		"unclosed challenge":     {doc("Open", "A: x\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{}}}"), "not closed"},
		"a title of 5,001":       {doc(strings.Repeat("t", 5_001), "A: x"), "at most 5000"},
		"a heading of 5,001":     {doc("Heading", strings.Repeat("h", 5_001)+": x"), "at most 5000"},
		"blank":                  {" \n\t", "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: tc.document, ModelID: "m", Force: true})
			if fault.CodeOf(err) != fault.StoreFailed || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 100_000 {
				t.Errorf("Mint = %.300v, want STORE_FAILED with %q", err, tc.want)
			}
			s, err := w.Spaces(t.Context(), w.caller, api.SpacesRequest{})
			if err != nil || s.Spaces[0].ChainCount != 0 {
				t.Errorf("%d protocols are stored, %v, want none", s.Spaces[0].ChainCount, err)
			}
		})
	}
}

func manySteps(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("S%d: x", i)
	}
	return out
}

func TestWhatIsJustWithinTheLimitsIsStoredWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: documents of many megabytes")
	}
	w := newWorld(t, nil)
	for name, document := range map[string]string{
		"almost 10 MiB":          doc("Huge", slices.Repeat([]string{"A: " + strings.Repeat("word ", (1<<20-100)/5) + "x"}, 9)...),
		"10,000 steps":           doc("Many", manySteps(10_000)...),
		"lines of a megabyte":    doc("Wide", "A: "+strings.Repeat("x", 1<<19)+"\n"+strings.Repeat("y", 1<<19-100)),
		"a title of 5,000":       doc(strings.Repeat("t", 5_000), "A: x"),
		"an unclosed code block": doc("Code", "A: x\n\n```sh\necho"),
	} {
		t.Run(name, func(t *testing.T) {
			r, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: document, ModelID: "m", Force: true})
			if err != nil {
				t.Fatalf("Mint = %.300v", err)
			}
			w.t = t
			if got := w.dump(r.Items[0].URI); strings.TrimRight(got, "\n ") != strings.TrimRight(document, "\n ") {
				t.Errorf("the dump has %d bytes and differs from the document, which has %d", len(got), len(document))
			}
		})
	}
}

// One call changes so many steps at most, and keeps no long name however many
// protocols its document has.
func TestWhatOneCallMayCostIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	minted, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: doc("Long", "A: x"), ModelID: strings.Repeat("m", 1<<20)})
	if err != nil {
		t.Fatal(err)
	}
	uri := minted.Items[0].URI
	exported, err := w.Dump(t.Context(), w.caller, api.DumpRequest{URI: uri, Protocol: true})
	if err != nil || len(fmt.Sprint(exported)) > 10_000 {
		t.Errorf("Dump = %d bytes, %v, want the name of the model cut", len(fmt.Sprint(exported)), err)
	}
	uris := make([]string, 1001)
	for i := range uris {
		uris[i] = uri
	}
	if _, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: uris}); fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("Delete of 1001 = %v", err)
	}
	_, err = w.Update(t.Context(), w.caller, api.UpdateRequest{URIs: uris, Updates: []byte(`{"text":"y"}`)})
	if fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("Update of 1001 = %v", err)
	}
}
