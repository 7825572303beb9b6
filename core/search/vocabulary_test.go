package search_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/search"
)

func TestAVocabularyHasEachWordOnceHoweverItWasAdded(t *testing.T) {
	var v search.Vocabulary
	var want []string
	for i := range 2000 {
		w := fmt.Sprintf("word%04d", i*7919%2000)
		want = append(want, w)
		v = v.With([]search.Numbered{{Number: uint32(i + 2), Text: w}, {Number: 1, Text: "again"}})
	}
	want = append(want, "again")
	slices.Sort(want)
	if diff := cmp.Diff(want, v.Words()); diff != "" {
		t.Errorf("Words() (-want +got):\n%s", diff)
	}
}
