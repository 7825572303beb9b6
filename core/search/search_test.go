package search_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// written returns a chain of steps given as "label | text | tags".
func written(title string, steps ...string) protocol.Chain {
	c := protocol.Chain{ID: protocol.ChainID(title), Title: title}
	for _, step := range steps {
		parts := append(strings.Split(step, "|"), "", "")
		c.Steps = append(c.Steps, protocol.Step{
			Label: strings.TrimSpace(parts[0]), Text: strings.TrimSpace(parts[1]), Tags: strings.Fields(parts[2]),
		})
	}
	return c
}

// library is what a query is asked of: the smallest thing that knows Stats.
type library struct {
	chains     []search.Analysis
	documents  []search.Document
	numbers    map[string]uint32
	vocabulary search.Vocabulary
}

func libraryOf(chains ...protocol.Chain) library {
	l := library{numbers: map[string]uint32{}}
	for _, c := range chains {
		l = l.with(c)
	}
	return l
}

// with adds a chain in the form in which stores keep it.
func (l library) with(c protocol.Chain) library {
	a := search.Analyse(c)
	l.numbers = maps.Clone(l.numbers)
	var numbers []uint32
	var fresh []search.Numbered
	for _, word := range a.Words() {
		if l.numbers[word] == 0 {
			// Not in the order in which they come.
			l.numbers[word] = uint32(1+len(l.numbers)) * 2654435761 % (1 << 31)
			fresh = append(fresh, search.Numbered{Number: l.numbers[word], Text: word})
		}
		numbers = append(numbers, l.numbers[word])
	}
	d, err := search.ParseDocument(a.AppendBinary(nil, numbers))
	if err != nil {
		panic(err)
	}
	l.chains, l.documents = append(slices.Clone(l.chains), a), append(slices.Clone(l.documents), d)
	l.vocabulary = l.vocabulary.With(fresh)
	return l
}

// stats as the comment of search.Stats says.
func (l library) stats(q search.Query) search.Stats {
	s := search.Stats{Chains: len(l.chains)}
	for _, w := range q.Words() {
		whole, completed := 0, 0
		for _, a := range l.chains {
			if slices.ContainsFunc(a.Postings(), func(p search.Posting) bool { return p.Term == w.Term }) {
				whole++
			}
			if slices.ContainsFunc(a.Words(), w.Completes) {
				completed++
			}
		}
		if whole == 0 {
			whole = completed
		}
		s.With = append(s.With, whole)
	}
	return s
}

// scorer is that of the text.
func (l library) scorer(text string) *search.Scorer {
	q := search.Ask(text)
	return q.Scorer(l.vocabulary, l.stats(q))
}

func (l library) score(query string, i int) (search.Result, bool) {
	return l.scorer(query).Score(l.documents[i])
}

func TestWordsAreFoldedAndSplit(t *testing.T) {
	for text, want := range map[string]string{
		"Rotate the Keys":           "rotate keys",
		"Größe ÄNDERN, Straße":      "grosse andern strasse",
		"ǢGIR ǽdel Ǿrsted":          "aegir aedel orsted",
		"Zażółć gęślą jaźń":         "zazolc gesla jazn",
		"ﬁle ﬁnder Ⅷ":               "file finder viii",
		"e-mail follow-on":          "email follow",
		"the user's keys, I'd say":  "user keys",
		"l'entreprise d’abord":      "entreprise abord",
		"createInvoice in GitHub":   "createinvoice github",
		"会議を":                       "会議 議を",
		"k会b":                       "k 会 b",
		"snake_case, kebab/path.go": "snake case kebab path go",
		"the who":                   "the who",
		"Ёлка Йод":                  "елка иод",
		"x\x00q \xff k":             "x q k",
		"---'''":                    "",
	} {
		var got []string
		for _, w := range search.Ask(text).Words() {
			got = append(got, w.Text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("Ask(%q).Words() = %q, want %q", text, got, want)
		}
	}
}

func TestFormsOfAWordHaveOneTerm(t *testing.T) {
	for _, forms := range []string{
		"rotate rotates rotating rotated", "credential credentials", "happen happened happening happens",
		"listen listening listens", "order orders ordering ordered", "container containers", "policy policies",
		"deploy deploys deploying deployed", "configuration configurations configuring", "register registered registering",
		"Prüfung Prüfungen prüfen", "Rechnung Rechnungen", "Installation installieren installiert",
		"Haus Häuser Hauses", "Bewerber Bewerbern", "Zugang Zugänge", "Verbindung Verbindungen verbinden",
	} {
		words := search.Ask(forms).Words()
		for _, w := range words {
			if w.Term != words[0].Term {
				t.Errorf("term of %q = %q, want that of %q, %q", w.Text, w.Term, words[0].Text, words[0].Term)
			}
		}
	}
}

// Candidates are found by the term, so scoring must not miss a form that has it.
func TestWordsWithTheTermOfTheQueryMatch(t *testing.T) {
	endings := strings.Fields(`s es ed ing ings er ers ly y ies ied e al ational ation ations ator ization izing ize iveness ive ful fulness
		ous ously ness able ability ably ible ibility ment ments ical icate ity ional ence ance ism ist en em ern ern ung ungen keit lich isch iert ieren st t n ning ting pping eed`)
	word := rapid.Custom(func(t *rapid.T) string {
		return rapid.StringMatching(`[a-z]{1,2}[aeiouy]?[a-z]{0,4}`).Draw(t, "root") + rapid.SampledFrom(endings).Draw(t, "ending") +
			rapid.SampledFrom(append(endings, "", "", "")).Draw(t, "last")
	})
	check := func(t rapid.TB, stored, asked string) {
		s, q := search.Ask(stored).Words(), search.Ask(asked+" ").Words()
		if len(s) != 1 || len(q) != 1 || s[0].Term != q[0].Term {
			return
		}
		l := libraryOf(written("Other", stored+" | text"))
		if got := l.scorer(asked + " ").Explain(l.documents[0]); len(got) != 1 || got[0].Found != stored {
			t.Fatalf("Explain(%q) = %+v, want a match of %q: both have the term %q", asked, got, stored, s[0].Term)
		}
	}
	for stored, asked := range map[string]string{"dying": "die", "lying": "lies", "tying": "tied", "skies": "sky", "early": "earli", "going": "go"} {
		check(t, stored, asked)
	}
	rapid.Check(t, func(t *rapid.T) {
		stored := word.Draw(t, "word")
		check(t, stored, search.Ask(stored).Words()[0].Term)
		check(t, search.Ask(stored).Words()[0].Term, stored)
	})
}

func TestFormsOfPolishWordsAreFound(t *testing.T) {
	l := libraryOf(written("Wystawianie faktury", "Krok | Zamówienie użytkownika i wdrożenie"),
		written("Other", "Step | text"))
	for _, query := range []string{
		"faktura", "fakturę", "fakturami", "faktur", "zamówień", "zamówieniami", "użytkownik", "użytkowników", "wdrożenia",
	} {
		if r, ok := l.score(query, 0); !ok || r.Score < 0.3 || r.Score >= 0.6 {
			t.Errorf("Score(%q) = %v, %v, want a match in [0.3, 0.6)", query, r, ok)
		}
	}
}

func TestNamesScoreHighest(t *testing.T) {
	c := written("Schedule a Calendar Appointment", "Find a slot | in all calendars")
	c.AltTitle, c.Slug, c.Tags = "Book a meeting", "meeting-booking", []string{"planning"}
	c.Triggers = []string{"we should talk", "Termin vereinbaren"}
	l := libraryOf(c, written("Something else", "Step | text"))
	for query, want := range map[string][2]float64{
		"Schedule a Calendar Appointment":       {1, 1},
		" schedule  A calendar: appointment! ":  {1, 1},
		"appointment calendar schedule":         {0.95, 0.95},
		"scheduling calendar appointments":      {0.95, 0.95},
		"book a meeting":                        {0.98, 0.98},
		"meetings to book":                      {0.94, 0.94},
		"meeting-booking":                       {0.97, 0.97},
		"we should talk":                        {0.98, 0.98},
		"vereinbaren: Termine":                  {0.94, 0.94},
		"calendar appointment":                  {0.45, 0.599},
		"planning":                              {0.3, 0.599},
		"schedule a calendar appointment today": {0.95, 0.95}, // today says nothing
		"our dentist is ill, who can schedule an appointment in her calendar": {0.6, 0.83},
	} {
		if r, ok := l.score(query, 0); !ok || r.Score < want[0] || r.Score > want[1] {
			t.Errorf("Score(%q) = %v, %v, want a score in %v", query, r, ok, want)
		}
	}
}

func TestTypingErrorsAreForgivenWhereNothingElseMatches(t *testing.T) {
	l := libraryOf(written("Schedule a calendar appointment", "Book | a room"),
		written("Rotating credentials", "Terminkalender | text"), written("Work", "Step | text"))
	for query, want := range map[string]int{
		"shedule": 0, "calender": 0, "apointment": 0, "calendra": 0, "credetnials": 1, "apointmens": 0, "termin": 1, "minkalender": 1,
		"xyzzy": -1, "rom": -1, "bokk": 0, "zork": -1, "schedulexyz": -1, "cow": -1, "qwertzuiop": -1,
	} {
		for i := range l.documents {
			if r, ok := l.score(query, i); ok != (i == want) || ok && r.Score >= search.MaxInexact {
				t.Errorf("Score(%q) of chain %d = %v, %v, want a match of %d only", query, i, r, ok, want)
			}
		}
	}
	l = l.with(written("Calender machines", "S | t"))
	if r, ok := l.score("calender", 0); ok {
		t.Errorf("Score(calender) = %v, want none: a chain has the word itself", r)
	}
}

func TestExplanationsSayWhere(t *testing.T) {
	l := libraryOf(written("Rotating credentials", "Issue a key | Store it in the vault | hsm"), written("Other", "S | t"))
	got := map[string]string{}
	for _, m := range l.scorer("rotate vaul keey hsm nothing").Explain(l.documents[0]) {
		got[m.Asked] = fmt.Sprintf("%s %s %s", m.Ranker, m.Field, m.Found)
	}
	want := map[string]string{
		"rotate": "words title rotating", "vaul": "prefix text vault", "keey": "typo label key", "hsm": "words tags hsm",
	}
	delete(want, "keey") // three letters are too few to be mistyped
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("Explain = %v, want %v", got, want)
	}
}

func TestDistanceCountsTypingErrors(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"calendar", "calendar", 0}, {"calendar", "calender", 1}, {"calendar", "calednar", 1}, {"calendar", "calenda", 1},
		{"calendar", "xcalendar", 1}, {"calendar", "kalender", 2}, {"abc", "xyz", 3}, {"", "ab", 2}, {"größe", "grösse", 2},
	} {
		if got := search.Distance(tc.a, tc.b, 9); got != tc.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestDistanceIsOneAndBounded(t *testing.T) {
	word := rapid.StringMatching(`[ab]{0,9}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, limit := word.Draw(t, "a"), word.Draw(t, "b"), rapid.IntRange(0, 4).Draw(t, "limit")
		full := search.Distance(a, b, 99)
		if got := search.Distance(b, a, 99); got != full {
			t.Fatalf("Distance(%q, %q) = %d, the other way round %d", a, b, full, got)
		}
		if got := search.Distance(a, b, limit); got != min(full, limit+1) {
			t.Fatalf("Distance(%q, %q, %d) = %d, want %d", a, b, limit, got, min(full, limit+1))
		}
	})
}

// someChain draws a chain out of few words, so that queries of them match.
func someChain(t *rapid.T, name string) protocol.Chain {
	words := rapid.Map(rapid.SliceOfN(rapid.SampledFrom(vocabulary), 1, 6), func(w []string) string { return strings.Join(w, " ") })
	c := protocol.Chain{Title: words.Draw(t, name), Description: words.Draw(t, name)}
	for range rapid.IntRange(0, 4).Draw(t, name) {
		c.Steps = append(c.Steps, protocol.Step{
			Label: words.Draw(t, name), Text: words.Draw(t, name), Tags: strings.Fields(words.Draw(t, name)),
		})
	}
	return c
}

var vocabulary = strings.Fields(`rotate rotating credentials the of calendar calender appointment schedule key vault deploy
	production Prüfung prüfen Rechnung faktura faktury 会議を予約する e-mail createInvoice a1 release releases server`)

func someQuery(t *rapid.T) string {
	return rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.SampledFrom(vocabulary), 0, 30),
		func(w []string) string { return strings.Join(w, " ") })).Draw(t, "query")
}

func TestScoresHoldForAllQueries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := libraryOf(someChain(t, "one"), someChain(t, "two"), someChain(t, "three"))
		text := someQuery(t)
		x := l.scorer(text)
		for i, d := range l.documents {
			r, ok := x.Score(d)
			if ok != (r.Score > 0) || r.Score > 1 || r.Step < 0 || r.Step >= max(1, d.Steps()) {
				t.Fatalf("Score(%q) of chain %d = %v, %v", text, i, r, ok)
			}
			for _, m := range x.Explain(d) {
				if m.Score <= 0 || m.Score > 1 || m.Step < 0 || m.Step >= max(1, d.Steps()) || m.Field == "" || m.Ranker == "" {
					t.Fatalf("Explain(%q) of chain %d has %+v", text, i, m)
				}
			}
		}
	})
}

// The order says whether a name was asked for, and whether two words of it are
// said as they are written.
func TestTheOrderOfWordsOnlyMattersForNames(t *testing.T) {
	named := func(r search.Result) bool { return r.Score > search.MaxUnsure }
	rapid.Check(t, func(t *rapid.T) {
		l := libraryOf(someChain(t, "one"), someChain(t, "two"))
		words := strings.Fields(someQuery(t))
		// A blank behind the last word says that it is not typed in part.
		before, okBefore := l.score(strings.Join(words, " ")+" ", 0)
		words = rapid.Permutation(words).Draw(t, "order")
		after, okAfter := l.score(strings.Join(words, " ")+" ", 0)
		if okBefore != okAfter || !named(before) && !named(after) && max(after.Score-before.Score, before.Score-after.Score) > 1e-9 {
			t.Fatalf("scores %v and %v of the same words %q", before, after, words)
		}
	})
}

func TestAWordIsFoundWhileItIsTyped(t *testing.T) {
	title := "Configuration of microservices"
	l := libraryOf(written(title, "Step | text"), written("Other", "Step | text"))
	for _, word := range []string{"configuration", "microservices"} {
		last := 0.0
		for n := 4; n <= len(word); n++ {
			r, ok := l.score(word[:n], 0)
			if !ok || r.Score < 0.3 {
				t.Errorf("Score(%q) = %v, %v, want a match", word[:n], r, ok)
			}
			last = r.Score
		}
		if r, _ := l.score(word[:4], 0); r.Score >= last {
			t.Errorf("Score(%q) = %v, want less than of the whole word, %v", word[:4], r.Score, last)
		}
		for _, query := range []string{word[:3], word[:4] + " ", word[:4] + "?"} {
			if r, ok := l.score(query, 0); ok && r.Score >= last {
				t.Errorf("Score(%q) = %v", query, r)
			}
		}
	}
}

func TestAnUnrelatedChainChangesNoMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := libraryOf(someChain(t, "one"), someChain(t, "two"), someChain(t, "three"))
		words := rapid.SliceOfN(rapid.SampledFrom(vocabulary), 1, 3).Draw(t, "query")
		query := strings.Join(words, " ")
		more := l.with(written("Zzz yyy", "Xxx | www"))
		for i := range l.documents {
			_, before := l.score(query, i)
			if _, after := more.score(query, i); before && !after {
				t.Fatalf("Score(%q) of chain %d: matched before an unrelated chain was added, not after", query, i)
			}
		}
	})
}

func TestDocumentsSurviveTheirBinaryForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := someChain(t, "chain")
		c.Slug, c.AltTitle, c.Tags = rapid.String().Draw(t, "slug"), rapid.String().Draw(t, "alt"), []string{rapid.String().Draw(t, "tag")}
		c.Triggers = rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "triggers")
		l := libraryOf(c)
		a, d := l.chains[0], l.documents[0]
		if d.Steps() != len(c.Steps) {
			t.Fatalf("Steps() = %d, want %d", d.Steps(), len(c.Steps))
		}
		for _, word := range a.Words() {
			if got := l.scorer(word).Explain(d); len(search.Ask(word).Words()) == 1 && (len(got) != 1 || got[0].Ranker != search.RankerWords) {
				t.Fatalf("Explain(%q) = %+v, want the word or another form of it", word, got)
			}
		}
	})
}

func TestHugeChainsAreBounded(t *testing.T) {
	c := protocol.Chain{Title: strings.Repeat("long ", 1000)}
	for i := range 2000 {
		c.Steps = append(c.Steps, protocol.Step{
			Label: fmt.Sprintf("Step %d", i), Text: fmt.Sprintf("walrus only%d other%d", i, i) + strings.Repeat("a", 1000*(i%2)),
		})
	}
	a := search.Analyse(c)
	numbers := make([]uint32, len(a.Words()))
	for i := range numbers {
		numbers[i] = uint32(1 + i)
	}
	if b := a.AppendBinary(nil, numbers); len(b) > 60_000 {
		t.Errorf("binary form of %d bytes, want at most 60000", len(b))
	}
}

func TestBackgroundsCalibrateModels(t *testing.T) {
	for name, tc := range map[string]struct {
		background       float64
		unrelated, close float64
	}{
		"spread": {0.1, 0.25, 0.5}, "compressed": {0.72, 0.78, 0.88},
	} {
		var cosines []float64
		for i := range 200 {
			cosines = append(cosines, tc.background+0.04*float64(i%11-5)/5)
		}
		b := search.BackgroundOf(cosines)
		if got := b.Score(tc.unrelated); got >= 0.3 {
			t.Errorf("%s: Score(%v) = %v, want less than 0.3", name, tc.unrelated, got)
		}
		if got := b.Score(tc.close); got < 0.3 || got >= 0.9 {
			t.Errorf("%s: Score(%v) = %v, want in [0.3, 0.9)", name, tc.close, got)
		}
	}
}

func TestFusedScoresKeepTheirOrder(t *testing.T) {
	words, vectors := rapid.Float64Range(0, search.MaxInexact), rapid.Float64Range(0, search.MaxUnsure)
	rapid.Check(t, func(t *rapid.T) {
		w, v := words.Draw(t, "words"), vectors.Draw(t, "vector")
		more, nearer := max(w, words.Draw(t, "more")), max(v, vectors.Draw(t, "nearer"))
		f, most := search.Fuse(w, v), search.MaxInexact
		if w <= search.MaxUnsure {
			most = search.MaxUnsure
		}
		if f < max(w, v) || f > most || search.Fuse(more, v) < f-1e-9 || search.Fuse(w, nearer) < f-1e-9 {
			t.Fatalf("Fuse(%v, %v) = %v", w, v, f)
		}
	})
	if got := search.Fuse(0.95, 0.8); got != 0.95 {
		t.Errorf("Fuse(0.95, 0.8) = %v, want 0.95", got)
	}
}

func TestWordsThatSayNothingFindOnlyTitlesWithAllOfThem(t *testing.T) {
	l := libraryOf(written("What to do with the rest of it", "Sort | Some of it goes, some of it stays."), written("Roll back", "Stop | Do not continue to the end of it."))
	if _, ok := l.score("to do of", 0); !ok {
		t.Errorf("a title with all the words is not found")
	}
	for _, query := range []string{"the of and or", "to do of who", "not to of"} {
		for i := range l.documents {
			if r, ok := l.score(query, i); ok {
				t.Errorf("Score(%q, chain %d) = %v, want no match", query, i, r)
			}
		}
	}
}

func TestAWordThatNobodyHasHidesLittle(t *testing.T) {
	chains := []protocol.Chain{written("Preregister a study", "State | The hypotheses come first.")}
	for i := range 100 {
		chains = append(chains, written(fmt.Sprintf("Other %d", i), "Step | Something else."))
	}
	l := libraryOf(chains...)
	with, _ := l.score("hypotheses zweifelsohne", 0)
	without, _ := l.score("hypotheses", 0)
	if with.Score < 0.5*without.Score || with.Score >= without.Score {
		t.Errorf("a word that no chain has changes the score from %.2f to %.2f, want less than half of it gone", without.Score, with.Score)
	}
}

func TestAWordMoreNeverLowersAScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := someChain(t, "chain")
		words := rapid.SliceOfN(rapid.SampledFrom(vocabulary), 1, 12).Draw(t, "query")
		query := strings.Join(words, " ") + "."
		q := search.Ask(query)
		stats := search.Stats{Chains: 100, With: make([]int, len(q.Words()))}
		for i := range stats.With {
			stats.With[i] = rapid.IntRange(1, 100).Draw(t, "with")
		}
		score := func() search.Result {
			l := libraryOf(c)
			r, _ := q.Scorer(l.vocabulary, stats).Score(l.documents[0])
			return r
		}
		before := score()
		c.Description += " " + rapid.SampledFrom(words).Draw(t, "more")
		if after := score(); after.Score < before.Score-1e-9 {
			t.Fatalf("Score(%q) falls from %v to %v with a word more in the description", query, before, after)
		}
	})
}

func TestCapitalsDoNotCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := libraryOf(someChain(t, "one"), someChain(t, "two"))
		query := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"rotate", "key", "release", "server", "vault", "deploy"}), 1, 8).Draw(t, "query"), " ")
		lower, _ := l.score(query, 0)
		if upper, _ := l.score(strings.ToUpper(query), 0); upper != lower {
			t.Fatalf("Score(%q) = %v, in capitals %v", query, lower, upper)
		}
	})
}

func TestOnlyAWholeNameIsSure(t *testing.T) {
	chains := []protocol.Chain{written("Restore a database from backup", "Stop | the service"), written("Rotate credentials", "Issue | a key")}
	for i := range 50 {
		chains = append(chains, written(fmt.Sprintf("Other %d", i), "Step | Something else."))
	}
	l := libraryOf(chains...)
	for query, want := range map[string]struct {
		chain int
		sure  bool
	}{
		"somebody dropped a table by accident, please restore the database from last night's backup": {0, true},
		"our partner leaked a token and I have to rotate credentials of the payment service now":     {1, true},
		"restore the database": {0, false},
		"the credentials of the payment service leaked and we should rotate them": {1, false},
	} {
		r, ok := l.score(query, want.chain)
		if !ok || r.Score < 0.3 || search.Sure(r.Score, 0) != want.sure {
			t.Errorf("Score(%q) = %v, %v, want a match, sure: %v", query, r, ok, want.sure)
		}
	}
	if most := search.Fuse(search.MaxUnsure, search.MaxUnsure); search.Sure(most, 0) {
		t.Errorf("words and vectors that are both unsure make %v, which is sure", most)
	}
}

// A title is found by whatever looks like it, and by nothing that only resembles it.
func TestATitleIsFoundByWhatLooksLikeIt(t *testing.T) {
	l := libraryOf(written("Deploy to production", "Step | text"), written("D\u0435stroy the c\u043epy", "Step | text"), written("Москва", "Step | text"))
	for query, want := range map[string]int{
		"Deploy to production": 0, "De\u200bploy to production": 0, "D\u0435pl\u043ey t\u043e pr\u043educti\u043en": 0, "ＤＥＰＬＯＹ to\u00adproduction": 0,
		"Ｄｅｐｌｏｙ to production\u3164": 0, "Destroy the copy": 1, "D\u0435stroy th\u0435 copy": 1, "москва": 2, "Deploy to productions": -1, "Deploys": -1, "\u200b": -1,
	} {
		for i, d := range l.documents {
			r, _ := l.scorer(query).Score(d)
			if exact := r.Score == 1; exact != (i == want) {
				t.Errorf("the score of %q for title %d is %v", query, i, r.Score)
			}
		}
		terms := search.Ask(query).Named().Names()
		for i, a := range l.chains {
			found := slices.ContainsFunc(a.Postings(), func(p search.Posting) bool { return slices.Contains(terms, p.Term) && strings.HasPrefix(p.Term, "x_") })
			if found != (i == want) {
				t.Errorf("title %d is looked up by %q: %v", i, query, found)
			}
		}
	}
}
