package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// People type other words than authors wrote, and still have to find their
// protocols.
var searchFormCases = map[string]func(*testing.T, Protocols){
	"other forms of words are found":                searchForms,
	"a word is found while it is typed":             searchPrefixes,
	"typing errors are tolerated":                   searchTypos,
	"a stored word is not taken for a typing error": searchNoTypos,
	"front matter and description are searched":     searchFrontMatter,
	"explanations name field and ranker":            searchExplained,
	"a space sees nothing of others":                searchSpaces,
	"a small space is searched as a whole":          searchSmallSpace,
	"one title in two spaces is two hits":           searchSameTitle,
	"a title is found by what looks like it":        searchLookAlike,
	"a replaced chain is found in its new version":  searchReplaced,
	"more chains than are read are ranked":          searchMany,
	"vectors find chains that words do not":         searchVectors,
	"words and vectors agree":                       searchHybrid,
	"vectors of another model are ignored":          searchOtherModel,
	"vectors see their spaces only":                 searchVectorSpaces,
	"an unrelated chain changes no match":           searchUnrelated,
}

// polyglot is a library in three languages.
func polyglot() []protocol.Chain {
	return []protocol.Chain{
		written("Rotating credentials", "Issue a new key | Store it in the vault."),
		written("Configuration of microservices", "Deploy | Roll out one region at a time."),
		written("Überprüfung der Zugänge", "Liste ziehen | Alle Berechtigungen der Mitarbeiter prüfen."),
		written("Rechnung schreiben", "Vorlage öffnen | Kundennummer und Beträge eintragen."),
		written("Wystawianie faktury", "Sprawdź zamówienie | Numer klienta i kwota."),
		written("Zażółć gęślą jaźń", "Krok | Wdrożenie użytkownika."),
		written("会議を予約する", "参加者を確認する | 名前で検索する。"),
	}
}

// wantFirst checks that a query finds the chain first, or nothing if the title is
// empty.
func wantFirst(t *testing.T, s Protocols, want map[string]string) {
	t.Helper()
	for query, title := range want {
		hits := mustSearch(t, s, query, mine)
		if title == "" && len(hits) > 0 || title != "" && (len(hits) == 0 || hits[0].Chain.Title != title) {
			t.Errorf("Search(%q) = %s, want %q first", query, describe(hits), title)
		}
	}
}

func searchForms(t *testing.T, s Protocols) {
	mustSave(t, s, polyglot()...)
	wantFirst(t, s, map[string]string{
		"rotate credential": "Rotating credentials", "configuring a microservice": "Configuration of microservices",
		"Zugang überprüfen": "Überprüfung der Zugänge", "Prüfung der Berechtigung": "Überprüfung der Zugänge",
		"Rechnungen": "Rechnung schreiben", "faktury": "Wystawianie faktury", "fakturami": "Wystawianie faktury",
		"zamówień": "Wystawianie faktury", "użytkowników": "Zażółć gęślą jaźń", "zazolc gesla": "Zażółć gęślą jaźń",
		"予約": "会議を予約する", "名前": "会議を予約する",
	})
}

func searchPrefixes(t *testing.T, s Protocols) {
	mustSave(t, s, polyglot()...)
	for word, title := range map[string]string{
		"configuration": "Configuration of microservices", "credentials": "Rotating credentials",
		"rechnung": "Rechnung schreiben", "berechtigungen": "Überprüfung der Zugänge",
	} {
		whole := scoreOf(mustSearch(t, s, word, mine), title)
		for n := 4; n <= len(word); n++ {
			hits := mustSearch(t, s, word[:n], mine)
			if score := scoreOf(hits, title); score < 0.3 || n == 4 && score >= whole {
				t.Errorf("Search(%q) = %s, want %q, below %.3f for four letters", word[:n], describe(hits), title, whole)
			}
		}
	}
}

func searchTypos(t *testing.T, s Protocols) {
	mustSave(t, s, polyglot()...)
	wantFirst(t, s, map[string]string{
		"credetnials": "Rotating credentials", "rotating credentals": "Rotating credentials",
		"confguration of mircoservices": "Configuration of microservices", "microservces": "Configuration of microservices",
		"rechnugn": "Rechnung schreiben", "Überprüfng der Zugänge": "Überprüfung der Zugänge", "fakutra": "Wystawianie faktury",
		"qwertzuiop": "", "rotationsellipsoid": "", "xyz": "", "vlt": "",
	})
	for _, h := range mustSearch(t, s, "credetnials", mine) {
		if h.Score >= 0.9 {
			t.Errorf("Search(credetnials) has %q at %.3f, want less than 0.9", h.Chain.Title, h.Score)
		}
	}
}

func searchNoTypos(t *testing.T, s Protocols) {
	mustSave(t, s, written("Plan the calendar", "S | t"), written("Calender machines", "S | t"))
	wantTitles(t, s, "calender", "Calender machines")
}

func searchFrontMatter(t *testing.T, s Protocols) {
	c := written("Alpha", "Step | text")
	c.Slug, c.AltTitle, c.Tags, c.Description = "bravo-charlie", "Delta echo", []string{"foxtrot"}, "Golf and hotel."
	c.Triggers = []string{"India", "Juliett calls"}
	mustSave(t, s, c, written("Other", "Nothing | at all"))
	for query, atLeast := range map[string]float64{
		"bravo-charlie": 0.9, "bravo charlie": 0.9, "delta echo": 0.9, "echo of delta": 0.9,
		"india": 0.9, "calls of juliett": 0.9,
		"bravo": 0.45, "delta": 0.45, "foxtrot": 0.4, "golf": 0.35,
	} {
		hits := mustSearch(t, s, query, mine)
		if len(hits) != 1 || hits[0].Score < atLeast || atLeast < 0.9 && hits[0].Score >= 0.6 {
			t.Errorf("Search(%q) = %s, want one hit from %.1f", query, describe(hits), atLeast)
		}
	}
}

func searchExplained(t *testing.T, s Protocols) {
	c := written("Rotating credentials", "Issue a key | Store it in the vault.", "Revoke | Ask the operators. | hsm")
	c.Slug = "secret-rotation"
	mustSave(t, s, c, written("Other", "Step | text"))
	hits := mustFind(t, s, library.Query{
		Text: "credential vaul oeprators hsm secret unheardof", Spaces: []string{mine}, Limit: 5, Explain: true,
	})
	if len(hits) != 1 {
		t.Fatalf("Search = %s, want one hit", describe(hits))
	}
	got := map[string]library.Match{}
	sum := 0.0
	for _, m := range hits[0].Why {
		got[m.Asked] = library.Match{Ranker: m.Ranker, Field: m.Field, Step: m.Step, Found: m.Found}
		sum += m.Score
	}
	for asked, want := range map[string]library.Match{
		"credential": {Ranker: "words", Field: "title", Found: "credentials"},
		"vaul":       {Ranker: "prefix", Field: "text", Found: "vault"},
		"oeprators":  {Ranker: "typo", Field: "text", Step: 1, Found: "operators"},
		"hsm":        {Ranker: "words", Field: "tags", Step: 1, Found: "hsm"},
		"secret":     {Ranker: "words", Field: "slug", Found: "secret"},
	} {
		if got[asked] != want {
			t.Errorf("why %q = %+v, want %+v", asked, got[asked], want)
		}
	}
	if len(hits[0].Why) != 5 || sum <= 0 || sum > 1 {
		t.Errorf("why = %+v, want five reasons with scores that add up to at most 1", hits[0].Why)
	}
	if hits := mustSearch(t, s, "credential", mine); hits[0].Why != nil {
		t.Errorf("Search without Explain: why = %+v, want none", hits[0].Why)
	}
}

func inTheirs(c protocol.Chain) protocol.Chain {
	c.Space = theirs
	return c
}

func searchSpaces(t *testing.T, s Protocols) {
	mustSave(t, s, written("Mine about the walrus", "Step | text"), inTheirs(written("Theirs about the narwhal", "Step | walrus")))
	for _, tc := range []struct {
		query  string
		spaces []string
		want   string
	}{
		{"walrus", []string{mine}, "[Mine about the walrus]"},
		{"narwhal", []string{mine}, "[]"}, {"narwal", []string{mine}, "[]"}, {"narw", []string{mine}, "[]"},
		{"Theirs about the narwhal", []string{mine}, "[Mine about the walrus]"},
		{"walrus", []string{mine, theirs}, "[Mine about the walrus Theirs about the narwhal]"},
		{"narwal", []string{theirs}, "[Theirs about the narwhal]"},
		{"walrus", []string{"user:test:nobody"}, "[]"},
	} {
		hits := mustSearch(t, s, tc.query, tc.spaces...)
		if tc.query == "Theirs about the narwhal" {
			if len(hits) > 0 && hits[0].Score >= 0.9 {
				t.Errorf("Search(%q, %q) = %s, want no such title", tc.query, tc.spaces, describe(hits))
			}
			continue
		}
		if got := fmt.Sprint(titles(hits)); got != tc.want {
			t.Errorf("Search(%q, %q) = %s, want %s", tc.query, tc.spaces, got, tc.want)
		}
	}
}

// searchSmallSpace: a small space must be searched completely beside a large one.
func searchSmallSpace(t *testing.T, s Protocols) {
	var many []protocol.Chain
	for i := range 120 {
		many = append(many, inTheirs(written(fmt.Sprintf("Server restart %d", i), "Restart the server | common words")))
	}
	mustSave(t, s, many...)
	mustSave(t, s, written("Notes", "Step | restart of the server, with common words"))
	for _, query := range []string{"server restart", "common words", "server", "restart a sevrer", "Notes", "comm"} {
		if hits := mustSearch(t, s, query, mine); len(hits) != 1 || hits[0].Chain.Title != "Notes" {
			t.Errorf("Search(%q) = %s, want the notes", query, describe(hits))
		}
	}
}

func searchReplaced(t *testing.T, s Protocols) {
	c := written("Backup", "Walrus | text")
	mustSave(t, s, c)
	c.Steps[0].Label = "Narwhal"
	mustReplace(t, s, c, 1)
	wantFirst(t, s, map[string]string{"walrus": "", "narwhal": "Backup"})
	mustDelete(t, s, c, 2)
	wantFirst(t, s, map[string]string{"narwhal": "", "backup": "", "bakcup": ""})
}

// searchMany: many chains with a word must not hide the one that matches better.
func searchMany(t *testing.T, s Protocols) {
	if testing.Short() {
		t.Skip("-short: stores a thousand chains")
	}
	var many []protocol.Chain
	for i := range 1000 {
		c := written(fmt.Sprintf("Task %d", i), "Step | configure the server and the printer")
		switch i {
		case 700:
			c = written("Configure the printer", "Step | server")
		case 800:
			c = written("Something", "Printer | configure the server", "Step | walrus")
		case 900:
			c.Title += " printer"
		}
		many = append(many, c)
	}
	mustSave(t, s, many...)
	wantFirst(t, s, map[string]string{
		"printer configure": "Configure the printer", "configure printer server": "Configure the printer",
		"printer": "Configure the printer", "server walrus": "Something", "task 977": "Task 977", "configure the serv walr": "Something",
	})
	if hits := mustSearch(t, s, "server", mine); len(hits) < 40 {
		t.Errorf("Search(server) = %d hits, want at least 40", len(hits))
	}
}

// embeddedLibrary saves chains of one step each; the vector of each points in
// its own direction and a little in all others'.
func embeddedLibrary(t *testing.T, s Protocols, chains ...protocol.Chain) map[string][]float32 {
	t.Helper()
	mustSave(t, s, chains...)
	vectors, byTitle := map[string][]float32{}, map[string][]float32{}
	for i, c := range chains {
		for step := range c.Steps {
			v := direction(len(chains)+4, i)
			v[len(v)-1-step%4] += 0.3
			vectors[protocol.PassageHash(c.Passage(step))] = v
			if step == 0 {
				byTitle[c.Title] = v
			}
		}
	}
	mustSaveVectors(t, s, model, vectors)
	return byTitle
}

func direction(length, i int) []float32 {
	v := make([]float32, length)
	for j := range v {
		v[j] = 0.05
	}
	v[i] = 1
	return v
}

func embeddedChains() []protocol.Chain {
	var chains []protocol.Chain
	for _, title := range strings.Fields("Walrus Narwhal Seal Otter Beluga Dolphin Porpoise Manatee Dugong Orca Penguin Puffin") {
		chains = append(chains, written(title, "First | about the "+title, "Second | more of it"))
	}
	return chains
}

func searchBy(t *testing.T, s Protocols, text, model string, vector []float32, spaces ...string) []library.Hit {
	t.Helper()
	hits := mustFind(t, s, library.Query{
		Text: text, Spaces: spaces, Limit: 20, Embedding: &library.Embedding{Model: model, Vector: vector}, Explain: true,
	})
	for i, h := range hits {
		if h.Score <= 0 || h.Score > 1 || i > 0 && h.Score > hits[i-1].Score {
			t.Errorf("Search(%q) = %s, want falling scores in (0, 1]", text, describe(hits))
		}
	}
	return hits
}

func searchVectors(t *testing.T, s Protocols) {
	vectors := embeddedLibrary(t, s, embeddedChains()...)
	hits := searchBy(t, s, "tusks and whiskers", model, vectors["Walrus"], mine)
	if len(hits) != 1 || hits[0].Chain.Title != "Walrus" || hits[0].Score < 0.3 || hits[0].Score >= 0.9 || hits[0].Step != 0 {
		t.Fatalf("Search = %s, want the walrus alone, in [0.3, 0.9)", describe(hits))
	}
	if why := hits[0].Why; len(why) != 1 || why[0].Ranker != "vector" || why[0].Field != "" || why[0].Score <= 0 {
		t.Errorf("why = %+v, want the vector", why)
	}
	nowhere := make([]float32, len(vectors["Walrus"]))
	for i := range nowhere {
		nowhere[i] = 1 - 2*float32(i%2)
	}
	if hits := searchBy(t, s, "qwxzv", model, nowhere, mine); len(hits) != 0 {
		t.Errorf("Search(gibberish) = %s, want none", describe(hits))
	}
}

func searchHybrid(t *testing.T, s Protocols) {
	vectors := embeddedLibrary(t, s, embeddedChains()...)
	words := scoreOf(mustSearch(t, s, "narwhal habits", mine), "Narwhal")
	hits := searchBy(t, s, "narwhal habits", model, vectors["Narwhal"], mine)
	if len(hits) == 0 || hits[0].Chain.Title != "Narwhal" || hits[0].Score <= words || hits[0].Score >= 0.9 {
		t.Errorf("Search = %s, want the narwhal above %.3f, which its words are worth", describe(hits), words)
	}
	// A match by name comes first, whatever its vector.
	hits = searchBy(t, s, "Seal", model, vectors["Otter"], mine)
	if got := titles(hits); len(got) < 2 || got[0] != "Seal" || got[1] != "Otter" || hits[0].Score < 0.9 {
		t.Errorf("Search(Seal, vector of the otter) = %s, want the seal and then the otter", describe(hits))
	}
}

func searchOtherModel(t *testing.T, s Protocols) {
	vectors := embeddedLibrary(t, s, embeddedChains()...)
	for name, hits := range map[string][]library.Hit{
		"another model":  searchBy(t, s, "whiskers", otherModel, vectors["Walrus"], mine),
		"another length": searchBy(t, s, "whiskers", model, vectors["Walrus"][:4], mine),
	} {
		if len(hits) != 0 {
			t.Errorf("Search with a vector of %s = %s, want none", name, describe(hits))
		}
	}
}

func searchVectorSpaces(t *testing.T, s Protocols) {
	chains := embeddedChains()
	for i := range chains[:6] {
		chains[i].Space = theirs
	}
	vectors := embeddedLibrary(t, s, chains...)
	for space, want := range map[string]int{mine: 0, theirs: 1} {
		if hits := searchBy(t, s, "whiskers", model, vectors["Walrus"], space); len(hits) != want {
			t.Errorf("Search in %s = %s, want %d: the walrus is theirs", space, describe(hits), want)
		}
	}
}

func searchUnrelated(t *testing.T, s Protocols) {
	mustSave(t, s, sample()...)
	queries := []string{"calendar appointment", "find a free slot", "credential", "root cause", "釋 会議", "shedule", "deploy to production"}
	before := map[string][]string{}
	for _, q := range queries {
		before[q] = titles(mustSearch(t, s, q, mine))
	}
	rapid.Check(t, func(r *rapid.T) {
		title := rapid.StringMatching(`[jqz]{5,8} [jqz]{5,8}`).Draw(r, "title")
		if _, err := s.SaveChains(t.Context(), []library.Change{{Chain: written(title, title+" | "+title)}}); err != nil {
			r.Skip("stored already")
		}
		for _, q := range queries {
			if after := titles(mustSearch(t, s, q, mine)); !slices.Equal(slices.Sorted(slices.Values(before[q])), slices.Sorted(slices.Values(after))) {
				r.Fatalf("Search(%q) = %q, want %q as before %q was stored", q, after, before[q], title)
			}
		}
	})
}
