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
		v = v.With([]string{w, "again"})
	}
	want = append(want, "again")
	slices.Sort(want)
	if diff := cmp.Diff(want, v.Words()); diff != "" {
		t.Errorf("Words() (-want +got):\n%s", diff)
	}
	if got := v.Missing([]string{"word0001", "nowhere", "again"}); !slices.Equal(got, []string{"nowhere"}) {
		t.Errorf("Missing = %v, want nowhere", got)
	}
}

func TestAVocabularyCompletesAndCorrects(t *testing.T) {
	for name, v := range map[string]search.Vocabulary{
		"recent": search.Vocabulary{}.With([]string{"certificate", "certify", "deploy"}),
		"sorted": search.Vocabulary{}.With([]string{"certificate", "certify", "deploy"}).With(make([]string, 1000)),
	} {
		t.Run(name, func(t *testing.T) {
			word := func(text string) search.Word { return search.Ask(text).Words()[0] }
			term := func(text string) string { return word(text).Term }
			if got := v.Completions(word("cert")); !slices.Contains(got, term("certificate")) || slices.Contains(got, term("deploy")) {
				t.Errorf("Completions(cert) = %v, want those of certificate and certify", got)
			}
			if got := v.Corrections(word("certifcate")); !slices.Equal(got, []string{term("certificate")}) {
				t.Errorf("Corrections(certifcate) = %v, want that of certificate", got)
			}
			if got := v.Corrections(word("zebra")); len(got) > 0 {
				t.Errorf("Corrections(zebra) = %v, want none", got)
			}
		})
	}
}
