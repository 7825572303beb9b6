package library_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

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

// mine is a schema of 53 KB that takes 1.9 GiB and most of a minute to compile.
func mine() string {
	properties := make([]string, 300)
	for i := range properties {
		properties[i] = fmt.Sprintf(`"a%d":{"pattern":"(%s%d){1000}"}`, i, strings.Repeat("a.b.", 45), i)
	}
	return `{"properties":{` + strings.Join(properties, ",") + `}}`
}

func TestAMineIsNotMinted(t *testing.T) {
	w := newWorld(t, nil)
	for name, document := range map[string]string{
		"inputs":        "# M\n\n```json\n{\"inputs\":" + mine() + "}\n```\n\n## A\n\nx\n",
		"output_schema": doc("M", "A: x\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"comment\":{\"min_length\":1},\"output_schema\":"+mine()+"}}\n```"),
	} {
		_, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: document, ModelID: "m", Force: true})
		if fault.CodeOf(err) != fault.DocumentRefused || !strings.Contains(err.Error(), "more than 250000 steps of patterns") {
			t.Errorf("Mint with %s = %.300v, want DOCUMENT_REFUSED with the limit", name, err)
		}
	}
}
