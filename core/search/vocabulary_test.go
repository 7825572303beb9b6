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

func TestAVocabularyCompletesAndCorrects(t *testing.T) {
	recent := search.Vocabulary{}.With([]search.Numbered{{1, "certificate"}, {2, "certify"}, {3, "deploy"}, {4, "2026"}})
	for name, v := range map[string]search.Vocabulary{"recent": recent, "sorted": recent.With(make([]search.Numbered, 1000))} {
		t.Run(name, func(t *testing.T) {
			word := func(text string) search.Word { return search.Ask(text).Words()[0] }
			term := func(text string) string { return word(text).Term }
			if got := v.Completions(word("cert")); !slices.Contains(got, term("certificate")) || slices.Contains(got, term("deploy")) {
				t.Errorf("Completions(cert) = %v, want those of certificate and certify", got)
			}
			if got := v.Corrections(word("certifcate")); !slices.Equal(got, []string{term("certificate")}) {
				t.Errorf("Corrections(certifcate) = %v, want that of certificate", got)
			}
			if got := append(v.Completions(word("202")), v.Corrections(word("20267"))...); len(got) > 0 {
				t.Errorf("alternatives to numbers = %v, want none", got)
			}
			if got := v.Corrections(word("zebra")); len(got) > 0 {
				t.Errorf("Corrections(zebra) = %v, want none", got)
			}
		})
	}
}
