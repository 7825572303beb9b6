package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

var searchCases = map[string]func(*testing.T, Protocols){
	"every field is searched":                   searchFields,
	"scores are calibrated":                     searchCalibration,
	"several chains with the query all match":   searchSeveral,
	"gibberish matches nothing":                 searchGibberish,
	"fields rank title, label, tags, text":      searchFieldOrder,
	"more of the query ranks higher":            searchCoverage,
	"rare words weigh more":                     searchRarity,
	"a chain is one hit with its best step":     searchBestStep,
	"the limit keeps the best":                  searchLimit,
	"queries are words and never syntax":        searchSyntax,
	"any query gives scores within their range": searchAnything,
	"a cancelled search says so":                searchCancelled,
}

func mustSearch(t *testing.T, s library.Searcher, query string, spaces ...string) []library.Hit {
	t.Helper()
	return mustFind(t, s, library.Query{Text: query, Spaces: spaces, Limit: 100})
}

func mustFind(t *testing.T, s library.Searcher, q library.Query) []library.Hit {
	t.Helper()
	hits, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("Search(%q) = %v, want nil", q.Text, err)
	}
	return hits
}

// titles of hits, best first.
func titles(hits []library.Hit) []string {
	var all []string
	for _, h := range hits {
		all = append(all, h.Chain.Title)
	}
	return all
}

// scoreOf the chain with the title; 0 when it was not found.
func scoreOf(hits []library.Hit, title string) float64 {
	for _, h := range hits {
		if h.Chain.Title == title {
			return h.Score
		}
	}
	return 0
}

// written returns a chain of steps given as "label | text | tags".
func written(title string, steps ...string) protocol.Chain {
	c := NewChain(mine, title, steps...)
	c.Description = ""
	for i, step := range steps {
		parts := append(strings.Split(step, "|"), "", "")
		c.Steps[i].Label, c.Steps[i].Text = strings.TrimSpace(parts[0]), strings.TrimSpace(parts[1])
		c.Steps[i].Tags = strings.Fields(parts[2])
	}
	return c
}

// sample is a small realistic store.
func sample() []protocol.Chain {
	return []protocol.Chain{
		written("Schedule a Calendar Appointment",
			"Resolve participants | Look up each person in the directory by name.",
			"Confirm duration | Ask how long the meeting shall be. | meeting duration",
			"Find slot | Find a free slot in all calendars.",
			"Create event | Create the event and invite everybody."),
		written("Rotating credentials", "Issue a new key | Create the new secret and store it in the vault.",
			"Revoke the old key | Only after every service uses the new one."),
		written("Release a new version", "Run the tests | All of them, on a clean checkout.",
			"Tag | Sign the tag.", "Deploy to production | Roll out to one region first. | deploy production"),
		written("Write an incident report", "Collect the timeline | From chat and alerts.",
			"Find the root cause | Ask why until it hurts."),
		written("Onboard a colleague", "Create accounts | Mail, chat, calendar.", "Plan the first week | With a buddy."),
		written("会議を予約する", "参加者を確認する | 名前で検索する。"),
		written("Überprüfung der Größe", "Messen | Mit dem Maßband."),
	}
}

func searchFields(t *testing.T, s Protocols) {
	c := written("Alpha title", "Bravo label | Charlie text | delta-tag", "Echo label | Foxtrot text")
	c.Description = "Golf description"
	mustSave(t, s, c, written("Other", "Nothing | at all"))
	for query, step := range map[string]int{
		"alpha": 0, "bravo": 0, "charlie": 0, "delta": 0, "golf": 0, "echo": 1, "foxtrot": 1,
	} {
		hits := mustSearch(t, s, query, mine)
		if len(hits) != 1 || hits[0].Chain.ID != c.ID || hits[0].Step != step {
			t.Errorf("Search(%q) = %v, want one hit of step %d", query, hits, step)
			continue
		}
		if len(hits[0].Chain.Steps) != 2 || hits[0].Chain.Steps[0].UUID != c.Steps[0].UUID {
			t.Errorf("Search(%q) has steps %v, want those of the chain", query, hits[0].Chain.Steps)
		}
	}
}

func searchCalibration(t *testing.T, s Protocols) {
	mustSave(t, s, sample()...)
	for query, tc := range map[string]struct {
		title   string
		atLeast float64
		below   float64
	}{
		"Schedule a Calendar Appointment":          {"Schedule a Calendar Appointment", 1, 1.01},
		"  schedule a  CALENDAR appointment\n":     {"Schedule a Calendar Appointment", 1, 1.01},
		"appointment calendar, schedule a":         {"Schedule a Calendar Appointment", 0.9, 1},
		"calendar appointment":                     {"Schedule a Calendar Appointment", 0.45, 0.6},
		"calendar":                                 {"Schedule a Calendar Appointment", 0.45, 0.6},
		"appointments":                             {"Schedule a Calendar Appointment", 0.45, 0.6},
		"how do I schedule a meeting?":             {"Schedule a Calendar Appointment", 0.4, 0.6},
		"schedule an appointment with the dentist": {"Schedule a Calendar Appointment", 0.3, 0.6},
		"find a free slot":                         {"Schedule a Calendar Appointment", 0.35, 0.6},
		"rotate credential":                        {"Rotating credentials", 0.9, 1},
		"rotate the database credentials":          {"Rotating credentials", 0.5, 0.6},
		"cred":                                     {"Rotating credentials", 0.35, 0.6},
		"deploy to production":                     {"Release a new version", 0.4, 0.6},
		"root cause":                               {"Write an incident report", 0.4, 0.6},
		"会議":                                       {"会議を予約する", 0.45, 0.6},
		"会議を予約する":                                  {"会議を予約する", 1, 1.01},
		"ÜBERPRÜFUNG der größe":                    {"Überprüfung der Größe", 1, 1.01},
		"uberprufung":                              {"Überprüfung der Größe", 0.45, 0.6},
		"vault secret rotation for the payment microservice": {"Rotating credentials", 0.3, 0.6},
	} {
		hits := mustSearch(t, s, query, mine)
		if len(hits) == 0 || hits[0].Chain.Title != tc.title || hits[0].Score < tc.atLeast || hits[0].Score >= tc.below {
			t.Errorf("Search(%q) = %s, want %q first with a score in [%.2f, %.2f)",
				query, describe(hits), tc.title, tc.atLeast, tc.below)
		}
	}
}

func describe(hits []library.Hit) string {
	var all []string
	for _, h := range hits {
		all = append(all, fmt.Sprintf("%q %.3f", h.Chain.Title, h.Score))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func searchSeveral(t *testing.T, s Protocols) {
	mustSave(t, s, sample()...)
	const query = "Quarterly Review 1699999999"
	for i := range 3 {
		mustSave(t, s, written(fmt.Sprintf("%s Part %d", query, i), "Step | Do it."))
	}
	hits := mustSearch(t, s, query, mine)
	if len(hits) < 3 {
		t.Fatalf("Search(%q) = %s, want at least the three", query, describe(hits))
	}
	for _, h := range hits[:3] {
		if !strings.HasPrefix(h.Chain.Title, query) || h.Score < 0.45 || h.Score >= 0.6 {
			t.Errorf("Search(%q) = %s, want the three with scores in [0.45, 0.6)", query, describe(hits))
		}
	}
}

func searchGibberish(t *testing.T, s Protocols) {
	mustSave(t, s, sample()...)
	for _, query := range []string{
		"xyzzy plugh", "qwxzv", "the xyzzy of the plugh", "zz", "", "   ", "!?", "\"\"", "*", "🐙", "schedulexyz", "'",
	} {
		wantTitles(t, s, query)
	}
}

func searchFieldOrder(t *testing.T, s Protocols) {
	mustSave(t, s, written("Four", "Step | about the zebra in the text"), written("Three", "Step | text | zebra"),
		written("Two", "Zebra step | text"), written("A zebra title", "Step | text"), written("Zebra", "Step | text"))
	wantTitles(t, s, "zebra", "Zebra", "A zebra title", "Two", "Three", "Four")
}

func searchCoverage(t *testing.T, s Protocols) {
	mustSave(t, s, written("Configure printer", "S | t"), written("Configure network printer", "S | t"),
		written("Configure network printer quietly", "S | t"), written("Something else", "S | t"))
	hits := mustSearch(t, s, "configure network printer driver", mine)
	two, three := scoreOf(hits, "Configure printer"), scoreOf(hits, "Configure network printer")
	if len(hits) != 3 || two < 0.3 || three <= two || three >= 0.9 {
		t.Errorf("Search = %s, want three hits, more coverage higher, partial ones in [0.3, 0.9)", describe(hits))
	}
}

func searchRarity(t *testing.T, s Protocols) {
	for i := range 20 {
		mustSave(t, s, written(fmt.Sprintf("Server task %d", i), "S | t"))
	}
	mustSave(t, s, written("Kubernetes task", "S | t"))
	hits := mustSearch(t, s, "kubernetes server", mine)
	if len(hits) != 21 || hits[0].Chain.Title != "Kubernetes task" || hits[0].Score <= hits[1].Score {
		t.Errorf("Search = %s, want the rare word first", describe(hits))
	}
}

func searchBestStep(t *testing.T, s Protocols) {
	mustSave(t, s, written("Chain", "One | walrus", "Two | walrus and narwhal", "Three | narwhal"))
	hits := mustSearch(t, s, "walrus narwhal", mine)
	if len(hits) != 1 || hits[0].Step != 1 {
		t.Errorf("Search = %v, want one hit of the step that has both words", hits)
	}
	for _, step := range hits[0].Chain.Steps {
		if step.Text != "" {
			t.Errorf("Search: step %q has its text, want none", step.Label)
		}
	}
}

func searchLimit(t *testing.T, s Protocols) {
	mustSave(t, s, written("Walrus", "S | t"), written("The other walrus", "S | t"), written("Third", "S | walrus"))
	for limit, want := range map[int]int{-1: 0, 0: 0, 1: 1, 2: 2, 9: 3} {
		hits := mustFind(t, s, library.Query{Text: "walrus", Spaces: []string{mine}, Limit: limit})
		if len(hits) != want {
			t.Errorf("Search(limit %d) = %s, want %d hits", limit, describe(hits), want)
		}
		if want > 0 && len(hits) > 0 && hits[0].Chain.Title != "Walrus" {
			t.Errorf("Search(limit %d) = %s, want the exact title first", limit, describe(hits))
		}
	}
	if hits := mustFind(t, s, library.Query{Text: "walrus", Limit: 9}); len(hits) != 0 {
		t.Errorf("Search(no space) = %s, want none", describe(hits))
	}
}

func searchSyntax(t *testing.T, s Protocols) {
	mustSave(t, s, written("Walrus and narwhal", "S | t"), written("Other", "S | near or not"))
	for _, query := range []string{
		`"walrus`, `walrus"`, `walrus* OR narwhal`, `NEAR(walrus narwhal, 2)`, `words:walrus`, `-walrus`, `^walrus`,
		`walrus AND`, `(walrus`, `{title}: walrus`, `walrus'; DROP TABLE chains; --`, "walrus\x00", "walrus \xff\xfe",
		"WALRUS", "walrus+narwhal", `"walrus" NOT "narwhal"`,
	} {
		hits := mustSearch(t, s, query, mine)
		if len(hits) == 0 || hits[0].Chain.Title != "Walrus and narwhal" {
			t.Errorf("Search(%q) = %s, want the walrus first", query, describe(hits))
		}
	}
}

func searchAnything(t *testing.T, s Protocols) {
	mustSave(t, s, sample()...)
	query := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[ a-z"*():^+\-]{0,40}`),
		rapid.Map(rapid.SliceOf(rapid.SampledFrom(strings.Fields(
			"schedule a calendar AND OR NOT NEAR credentials create the event 会議 über xyzzy 1"))),
			func(words []string) string { return strings.Join(words, " ") }),
	)
	rapid.Check(t, func(t *rapid.T) { CheckSearch(t, s, []string{mine}, query.Draw(t, "query")) })
}

// CheckSearch searches and checks the rules that hold for every query: no error,
// one hit per chain, best first, scores in (0, 1].
func CheckSearch(t rapid.TB, s library.Searcher, spaces []string, query string) {
	t.Helper()
	hits, err := s.Search(context.Background(), library.Query{Text: query, Spaces: spaces, Limit: 3})
	if err != nil {
		t.Fatalf("Search(%q) = %v, want nil", query, err)
	}
	seen := map[string]bool{}
	for i, h := range hits {
		if h.Score <= 0 || h.Score > 1 || i > 0 && h.Score > hits[i-1].Score || seen[h.Chain.ID] {
			t.Fatalf("Search(%q) = %s, want distinct chains with falling scores in (0, 1]", query, describe(hits))
		}
		if h.Step < 0 || h.Step >= max(1, len(h.Chain.Steps)) {
			t.Fatalf("Search(%q): step %d of %d", query, h.Step, len(h.Chain.Steps))
		}
		seen[h.Chain.ID] = true
	}
	if len(hits) > 3 {
		t.Fatalf("Search(%q) = %d hits, want at most 3", query, len(hits))
	}
}

func searchCancelled(t *testing.T, s Protocols) {
	mustSave(t, s, sample()...)
	_, err := s.Search(cancelled(t), library.Query{Text: "calendar", Spaces: []string{mine}, Limit: 5})
	wantCancelled(t, "Search(cancelled)", err)
}
