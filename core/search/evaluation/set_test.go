package evaluation_test

import (
	"math"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/search/evaluation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t *testing.T) evaluation.Set {
	t.Helper()
	s, err := evaluation.Load(os.DirFS("../../../testdata/search"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheSetIsAsLargeAsTheFiguresNeed(t *testing.T) {
	s := load(t) // also proves that the protocols parse without a finding
	if n := len(s.Chains); n < 120 {
		t.Errorf("the set has %d protocols, want at least 120", n)
	}
	if n := len(s.Queries); n < 850 {
		t.Errorf("the set has %d queries, want at least 850", n)
	}
	count, seen := map[evaluation.Kind]int{}, map[string]bool{}
	heldOut := map[evaluation.Kind]int{}
	for _, q := range s.Queries {
		if seen[q.Text] {
			t.Errorf("query %q stands there twice", q.Text)
		}
		seen[q.Text] = true
		count[q.Kind]++
		if q.Half() == evaluation.HeldOut {
			heldOut[q.Kind]++
		}
	}
	for kind, least := range map[evaluation.Kind]int{
		evaluation.Exact: 40, evaluation.TitleDE: 12, evaluation.TitlePL: 12, evaluation.Partial: 30,
		evaluation.WordForm: 30, evaluation.Typo: 40, evaluation.Paraphrase: 180, evaluation.Gibberish: 30,
		evaluation.Prefix: 20, evaluation.Keyword: 60, evaluation.Sentence: 160, evaluation.CrossLanguage: 60, evaluation.Negative: 150,
	} {
		if count[kind] < least {
			t.Errorf("the set has %d queries of kind %s, want at least %d", count[kind], kind, least)
		}
		if 3*heldOut[kind] < count[kind] || 3*heldOut[kind] > 2*count[kind] {
			t.Errorf("%d of the %d queries of kind %s are held out, want about half", heldOut[kind], count[kind], kind)
		}
	}
}

func TestNoSentenceStandsInTwoProtocols(t *testing.T) {
	// Repeated text would make the protocols alike in a way that real ones are not.
	at := map[string]string{}
	for _, c := range load(t).Chains {
		for _, step := range c.Steps {
			_, text, _ := strings.Cut(step.Text, "\n") // without the heading
			for _, sentence := range strings.Split(strings.Join(strings.Fields(text), " "), ". ") {
				if other, ok := at[sentence]; ok && len(sentence) > 30 {
					t.Errorf("%q stands in %q and in %q", sentence, other, c.Title)
				}
				at[sentence] = c.Title
			}
		}
	}
}

func TestAThirdOfTheShortQueriesShareNoContentWordWithTheirProtocol(t *testing.T) {
	s := load(t)
	apart, all := 0, 0
	for _, q := range s.Queries {
		if len(q.Want) == 0 || q.Kind == evaluation.Sentence {
			continue
		}
		all++
		if !share(contentWords(q.Text), contentWords(s.Documents[q.Want[0]])) {
			apart++
		}
	}
	if 3*apart < all {
		t.Errorf("%d of %d queries share no content word with the protocol they look for, want a third", apart, all)
	}
}

func TestFindingsInProtocolsAreErrors(t *testing.T) {
	_, err := evaluation.Load(fstest.MapFS{
		"protocols/a.md": {Data: []byte("text before\n\n# A\n\n## One\n\nText.\n")},
		"queries.jsonl":  {},
	})
	if err == nil || !strings.Contains(err.Error(), "a.md:1:1: warning") {
		t.Errorf("Load = %v, want the warning with its place", err)
	}
	_, err = evaluation.Load(fstest.MapFS{
		"protocols/a.md": {Data: []byte("# A\n\n## One\n\nText.\n")},
		"queries.jsonl":  {Data: []byte(`{"query": "a", "kind": "exact", "want": ["B"]}`)},
	})
	if err == nil || !strings.Contains(err.Error(), `queries.jsonl:1: no protocol has the title "B"`) {
		t.Errorf("Load = %v, want the title that is missing", err)
	}
}

// stopWords are the words of more than three letters that say nothing about a subject.
var stopWords = wordsOf(`about after also before every first from into last only other over somebody someone than that their
	them then there they this until were what when where which while will with without your been have does
	aber auch dann dass eine einem einen einer eines nach nicht oder sich sind über wird`)

// contentWords are the words of a text as they stand there: more than three
// letters, no stop words.
func contentWords(text string) map[string]bool {
	words := wordsOf(text)
	for w := range words {
		if len([]rune(w)) <= 3 || stopWords[w] {
			delete(words, w)
		}
	}
	return words
}

func wordsOf(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		out[w] = true
	}
	return out
}

func share(a, b map[string]bool) bool {
	for w := range a {
		if b[w] {
			return true
		}
	}
	return false
}

func TestFiguresCountWhatWasFound(t *testing.T) {
	answer := func(kind evaluation.Kind, want []string, found ...string) evaluation.Answer {
		a := evaluation.Answer{Query: evaluation.Query{Text: "q", Kind: kind, Want: want}}
		for _, title := range found {
			a.Found = append(a.Found, evaluation.Found{Title: title, Score: 0.5})
		}
		return a
	}
	r := evaluation.Report{Answers: []evaluation.Answer{
		answer(evaluation.Exact, []string{"A"}, "A", "B"),
		answer(evaluation.Exact, []string{"A"}, "B", "C", "A"),
		answer(evaluation.Exact, []string{"A"}, "B", "C", "D", "E", "F", "A"),
		answer(evaluation.Typo, []string{"A", "B"}, "B", "A"),
		answer(evaluation.Gibberish, nil),
		answer(evaluation.Gibberish, nil, "A"),
	}}
	f := r.Figures(evaluation.Exact)
	if f.Queries != 3 || f.Recall1 != 1./3 || f.Recall5 != 2./3 || math.Abs(f.MRR-0.5) > 1e-9 {
		t.Errorf("Figures(exact) = %+v, want recalls of 1/3 and 2/3 and an MRR of (1 + 1/3 + 1/6)/3 = 0.5", f)
	}
	if f = r.Figures(evaluation.Typo); f.Recall1 != 0 || f.Recall5 != 1 || f.MRR != 0.5 {
		t.Errorf("Figures(typo) = %+v, want recalls of 0 and 1 and an MRR of 1/2", f)
	}
	if f = r.Figures(); f.FalseMatches != 1 || len(r.Misses()) != 2 {
		t.Errorf("%d false matches and misses %v, want one and two", f.FalseMatches, r.Misses())
	}
	other := evaluation.Report{Answers: append([]evaluation.Answer{answer(evaluation.Exact, []string{"A"}, "B")}, r.Answers[1:]...)}
	if got := r.SameTop(other); got != 0.75 {
		t.Errorf("SameTop = %v, want 3 of 4", got)
	}
}
