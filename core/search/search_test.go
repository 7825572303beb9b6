package search_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
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

// library is an index of protocols whose ChainIDs are their numbers.
type library struct {
	*search.Index
	size int
}

// libraryOf compares words only.
func libraryOf(chains ...protocol.Chain) *library {
	l := &library{Index: search.New(nil)}
	for _, c := range chains {
		l.add(c)
	}
	return l
}

func (l *library) add(c protocol.Chain) {
	c.ID = strconv.Itoa(l.size)
	l.size++
	l.Put(search.OutlineOf("", c, nil))
}

// found is what a query finds of chain i; nil: nothing.
func (l *library) found(query string, i int) *search.Found {
	a := l.Search(search.Request{Texts: []string{query}, Spaces: []string{""}, Choices: 1000, Unsure: 1000})
	for _, f := range a.Choices {
		if f.ChainID == strconv.Itoa(i) {
			return &f
		}
	}
	return nil
}

func (l *library) score(query string, i int) float64 {
	if f := l.found(query, i); f != nil {
		return f.Score
	}
	return 0
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
		if got := libraryOf(written("Other "+stored, "Step | text")).found(asked+" ", 0); got == nil || len(got.Why.Matches) != 1 || got.Why.Matches[0].Found != stored {
			t.Fatalf("Search(%q) = %+v, want a match of %q: both have the term %q", asked, got, stored, s[0].Term)
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
		if got := l.score(query, 0); got < 0.3 || got >= 0.6 {
			t.Errorf("the score of %q is %v, want a match in [0.3, 0.6)", query, got)
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
		"our dentist is ill, who can schedule an appointment in her calendar": {0.35, 0.599},
		"schedule an appointment in the dentist's calendar":                   {0.6, 0.83},
	} {
		if got := l.score(query, 0); got < want[0] || got > want[1] {
			t.Errorf("the score of %q is %v, want one in %v", query, got, want)
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
		for i := range l.size {
			if got := l.score(query, i); (got > 0) != (i == want) || got >= search.MaxInexact {
				t.Errorf("the score of %q for chain %d is %v, want a match of %d only", query, i, got, want)
			}
		}
	}
	l.add(written("Calender machines", "S | t"))
	if got := l.score("calender", 0); got > 0 {
		t.Errorf("the score of calender is %v, want none: a chain has the word itself", got)
	}
}

func TestExplanationsSayWhatAnswersWhat(t *testing.T) {
	l := libraryOf(written("Rotating credentials", "Issue a key | Store it in the vault | hsm"), written("Other", "S | t"))
	got := map[string]string{}
	sum := 0.0
	f := l.found("rotate vaul keey hsm nothing", 0)
	for _, m := range f.Why.Matches {
		got[m.Asked] = m.Ranker + " " + m.Found
		sum += m.Score
	}
	// Three letters are too few to be mistyped.
	want := map[string]string{"rotate": "words rotating", "vaul": "prefix vault", "hsm": "words hsm"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the matches are %v, want %v", got, want)
	}
	if math.Abs(sum-f.Why.Words) > 1e-6 {
		t.Errorf("the words of an explanation make %v together, want %v", sum, f.Why.Words)
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
		for i := range l.size {
			f := l.found(text, i)
			if f == nil {
				continue
			}
			if f.Score <= 0 || f.Score > 1 || f.Why.Words < 0 || f.Why.Words > 1+1e-9 {
				t.Fatalf("Search(%q) of chain %d = %+v", text, i, f)
			}
			for _, m := range f.Why.Matches {
				if m.Score <= 0 || m.Score > 1 || m.Asked == "" || m.Found == "" || m.Ranker == "" {
					t.Fatalf("Search(%q) of chain %d explains %+v", text, i, m)
				}
			}
		}
	})
}

// The order says whether a name was asked for, and whether two words of it are
// said as they are written.
func TestTheOrderOfWordsOnlyMattersForNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := libraryOf(someChain(t, "one"), someChain(t, "two"))
		words := strings.Fields(someQuery(t))
		// A blank behind the last word says that it is not typed in part.
		before := l.score(strings.Join(words, " ")+" ", 0)
		words = rapid.Permutation(words).Draw(t, "order")
		after := l.score(strings.Join(words, " ")+" ", 0)
		if (before > 0) != (after > 0) || max(before, after) <= search.MaxUnsure && math.Abs(before-after) > 1e-9 {
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
			if last = l.score(word[:n], 0); last < 0.3 {
				t.Errorf("the score of %q is %v, want a match", word[:n], last)
			}
		}
		for _, query := range []string{word[:4], word[:3], word[:4] + " ", word[:4] + "?"} {
			if got := l.score(query, 0); got >= last {
				t.Errorf("the score of %q is %v, want less than of the whole word, %v", query, got, last)
			}
		}
	}
}

func TestAnUnrelatedChainChangesNoMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := libraryOf(someChain(t, "one"), someChain(t, "two"), someChain(t, "three"))
		words := rapid.SliceOfN(rapid.SampledFrom(vocabulary), 1, 3).Draw(t, "query")
		query := strings.Join(words, " ")
		before := [3]float64{l.score(query, 0), l.score(query, 1), l.score(query, 2)}
		l.add(written("Zzz yyy", "Xxx | www"))
		for i, b := range before {
			if after := l.score(query, i); b > 0 && after == 0 {
				t.Fatalf("%q found chain %d before an unrelated chain was added, and not after", query, i)
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
	before := heap()
	l := libraryOf(c)
	if size := heap() - before; size > 4e6 {
		t.Errorf("an outline and its words have %.1f MB, want at most 4", size/1e6)
	}
	if l.score("step 1999", 0) == 0 {
		t.Error("its first words are not found")
	}
}

func TestWordsThatSayNothingFindOnlyTitlesWithAllOfThem(t *testing.T) {
	l := libraryOf(written("What to do with the rest of it", "Sort | Some of it goes, some of it stays."), written("Roll back", "Stop | Do not continue to the end of it."))
	if l.score("to do of", 0) == 0 {
		t.Errorf("a title with all the words is not found")
	}
	for _, query := range []string{"the of and or", "to do of who", "not to of"} {
		for i := range l.size {
			if got := l.score(query, i); got > 0 {
				t.Errorf("the score of %q for chain %d is %v, want no match", query, i, got)
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
	with, without := l.score("hypotheses zweifelsohne", 0), l.score("hypotheses", 0)
	if with < 0.5*without || with >= without {
		t.Errorf("a word that no chain has changes the score from %.2f to %.2f, want less than half of it gone", without, with)
	}
}

func TestAWordMoreNeverLowersAScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := someChain(t, "chain")
		// A word as it is typed replaces one that it was a typing error of.
		all := slices.DeleteFunc(slices.Clone(vocabulary), func(w string) bool { return w == "calender" })
		words := rapid.SliceOfN(rapid.SampledFrom(all), 1, 12).Draw(t, "query")
		query := strings.Join(words, " ") + "."
		score := func() float64 { return libraryOf(c).score(query, 0) }
		before := score()
		c.Description += " " + rapid.SampledFrom(words).Draw(t, "more")
		if after := score(); after < before-1e-9 {
			t.Fatalf("the score of %q falls from %v to %v with a word more in the description", query, before, after)
		}
	})
}

func TestCapitalsDoNotCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := libraryOf(someChain(t, "one"), someChain(t, "two"))
		query := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"rotate", "key", "release", "server", "vault", "deploy"}), 1, 8).Draw(t, "query"), " ")
		lower, upper := l.score(query, 0), l.score(strings.ToUpper(query), 0)
		if upper != lower {
			t.Fatalf("the score of %q is %v, in capitals %v", query, lower, upper)
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
		"please restore the database from tonight's backup": {0, true},
		"we should rotate credentials for payments":         {1, true},
		"restore the database":                              {0, false},
		// What is said besides may mean another protocol.
		"somebody dropped a table by accident, please restore the database from last night's backup": {0, false},
		"the credentials of the payment service leaked and we should rotate them":                    {1, false},
	} {
		if got := l.score(query, want.chain); got < 0.25 || search.Sure(got, 0) != want.sure {
			t.Errorf("the score of %q is %v, want a match, sure: %v", query, got, want.sure)
		}
	}
}

// A title is found by whatever looks like it, and by nothing that only resembles it.
func TestATitleIsFoundByWhatLooksLikeIt(t *testing.T) {
	l := libraryOf(written("Deploy to production", "Step | text"), written("D\u0435stroy the c\u043epy", "Step | text"), written("Москва", "Step | text"))
	for query, want := range map[string]int{
		"Deploy to production": 0, "De\u200bploy to production": 0, "D\u0435pl\u043ey t\u043e pr\u043educti\u043en": 0, "ＤＥＰＬＯＹ to\u00adproduction": 0,
		"Ｄｅｐｌｏｙ to production\u3164": 0, "Destroy the copy": 1, "D\u0435stroy th\u0435 copy": 1, "москва": 2, "Deploy to productions": -1, "Deploys": -1, "\u200b": -1,
	} {
		for i := range l.size {
			if got := l.score(query, i); (got == 1) != (i == want) {
				t.Errorf("the score of %q for title %d is %v", query, i, got)
			}
		}
		var named []string
		for _, f := range l.Named(query, []string{""}) {
			if f.Score == 1 {
				named = append(named, f.ChainID)
			}
		}
		if want >= 0 && !slices.Equal(named, []string{strconv.Itoa(want)}) || want < 0 && len(named) > 0 {
			t.Errorf("titles like %q are %v, want %d", query, named, want)
		}
	}
}
