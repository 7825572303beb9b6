package outlines_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/outlines"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

const (
	mine   = "user:test:mine"
	theirs = "user:test:theirs"
)

// server is one of several with the same database.
type server struct {
	*outlines.Outlines
	store interface {
		outlines.Store
		library.ProtocolWriter
		library.Vectors
	}
}

// databases open a server on a new database, and each time another one on the same.
var databases = map[string]func(t *testing.T) func() server{
	"SQLite": func(t *testing.T) func() server {
		path := filepath.Join(t.TempDir(), "kairos.db")
		return func() server {
			s, err := sqlitetest.Open(path, nil)
			must(t, err)
			closeAfter(t, s)
			return server{newOutlines(s), s}
		}
	},
	"PostgreSQL": func(t *testing.T) func() server {
		address := postgrestest.Start(t).Database(t)
		return func() server {
			s, err := postgres.Open(address, nil)
			must(t, err)
			closeAfter(t, s)
			return server{newOutlines(s.Protocols), s.Protocols}
		}
	},
}

func newOutlines(s outlines.Store) *outlines.Outlines {
	return outlines.New(s, nil, slog.New(slog.DiscardHandler))
}

func closeAfter(t *testing.T, c io.Closer) { t.Cleanup(func() { must(t, c.Close()) }) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func onEach(t *testing.T, check func(t *testing.T, open func() server)) {
	for name, open := range databases {
		t.Run(name, func(t *testing.T) { check(t, open(t)) })
	}
}

func (s server) save(t *testing.T, chains ...protocol.Chain) {
	t.Helper()
	changes := make([]library.Change, len(chains))
	for i, c := range chains {
		changes[i].Chain = c
	}
	_, err := s.store.SaveChains(t.Context(), changes)
	must(t, err)
}

func (s server) want(t *testing.T, query string, spaces []string, want ...string) {
	t.Helper()
	var got []string
	for _, f := range s.search(t, query, spaces).Choices {
		got = append(got, f.Title)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("Search(%q) in %q = %q, want %q", query, spaces, got, want)
	}
}

func (s server) search(t *testing.T, query string, spaces []string) search.Answer {
	t.Helper()
	a, err := s.Search(t.Context(), asking(query, spaces))
	must(t, err)
	return a
}

// asking asks for every protocol that has something of the query.
func asking(query string, spaces []string) library.Query {
	return library.Query{Request: search.Request{Texts: []string{query}, Spaces: spaces, Choices: 1000, Unsure: 1000}}
}

// TestTheNextSearchOfEveryServerSeesEveryChange: they tell each other nothing, and share
// the number of the last change.
func TestTheNextSearchOfEveryServerSeesEveryChange(t *testing.T) {
	onEach(t, func(t *testing.T, open func() server) {
		a, b := open(), open()
		a.want(t, "heron", []string{mine})
		herons := storetest.NewChain(mine, "Feed the heron", "Catch")
		a.save(t, herons)
		b.want(t, "heron", []string{mine}, "Feed the heron")
		a.want(t, "heron", []string{mine}, "Feed the heron")
		b.save(t, storetest.NewChain(mine, "Wash the heron", "Rinse"))
		a.want(t, "heron", []string{mine}, "Feed the heron", "Wash the heron")
		renamed := herons
		renamed.Title, renamed.AltTitle, renamed.Triggers, renamed.Summary, renamed.Description = "Feed the otter", "", nil, "", ""
		_, err := b.store.SaveChains(t.Context(), []library.Change{{Chain: renamed, Replaces: 1}})
		must(t, err)
		a.want(t, "heron", []string{mine}, "Wash the heron")
		a.want(t, "otter", []string{mine}, "Feed the otter")
		must(t, a.store.DeleteChain(t.Context(), mine, herons.ID, 2))
		b.want(t, "otter", []string{mine})
		open().want(t, "heron", []string{mine}, "Wash the heron")
	})
}

func TestProtocolsOfOtherSpacesAreNeitherFoundNorCounted(t *testing.T) {
	onEach(t, func(t *testing.T, open func() server) {
		s := open()
		s.save(t, storetest.NewChain(mine, "Feed the heron", "Catch"), storetest.NewChain(mine, "Feed the otter", "Catch"))
		before := scores(t, s, "feed the heron")
		for i := range 20 {
			s.save(t, storetest.NewChain(theirs, fmt.Sprintf("Feed heron %d", i), "Catch"))
		}
		s.want(t, "heron 7", []string{mine}, "Feed the heron")
		// Protocols that the caller cannot read change no score: a score would tell of them.
		if after := scores(t, s, "feed the heron"); !slices.Equal(after, before) {
			t.Errorf("scores are %v and were %v before other spaces had protocols", after, before)
		}
		s.want(t, "heron", nil)
		s.want(t, "heron", []string{"user:test:nobody"})
	})
}

func scores(t *testing.T, s server, query string) (all []float64) {
	t.Helper()
	for _, f := range s.search(t, query, []string{mine}).Choices {
		all = append(all, f.Score)
	}
	return all
}

func TestManySearchesReadChangesOnce(t *testing.T) {
	s := databases["SQLite"](t)()
	chains := make([]protocol.Chain, 300) // more than a batch
	for i := range chains {
		chains[i] = storetest.NewChain(mine, fmt.Sprintf("Feed heron %d", i), "Catch")
	}
	s.save(t, chains...)
	counted := &counting{Store: s.store}
	o := newOutlines(counted)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			a, err := o.Search(t.Context(), asking("heron", []string{mine}))
			if err != nil || len(a.Choices) != 300 {
				t.Errorf("Search = %d protocols, %v, want 300", len(a.Choices), err)
			}
		})
	}
	all.Wait()
	if counted.read != 300 {
		t.Errorf("16 searches at once read %d protocols, want 300", counted.read)
	}
}

// counting counts the changes that are read, by one caller at a time.
type counting struct {
	outlines.Store
	read int
}

func (c *counting) Changed(ctx context.Context, since int64, limit int) ([]library.Changed, error) {
	changes, err := c.Store.Changed(ctx, since, limit)
	c.read += len(changes)
	return changes, err
}

// TestDeletedWordsDoNotStay: the words of protocols that are minted and deleted again and
// again would fill the memory.
func TestDeletedWordsDoNotStay(t *testing.T) {
	s := databases["SQLite"](t)()
	s.save(t, storetest.NewChain(mine, "Feed the heron", "Catch"))
	counted := &counting{Store: s.store}
	o := newOutlines(counted)
	find := func() int {
		before := counted.read
		a, err := o.Search(t.Context(), asking("heron", []string{mine}))
		if err != nil || len(a.Choices) != 1 {
			t.Fatalf("Search = %+v, %v, want the heron", a.Choices, err)
		}
		return counted.read - before
	}
	find()
	for n := range 7 {
		c := storetest.NewChain(mine, fmt.Sprintf("Large %d", n), "Read")
		for i := range 15_000 {
			c.Steps[0].Text += fmt.Sprintf(" word%d", n*15_000+i)
		}
		s.save(t, c)
		find()
		must(t, s.store.DeleteChain(t.Context(), mine, c.ID, 1))
	}
	find() // the last deletion
	s.save(t, storetest.NewChain(mine, "Wash the otter", "Rinse"))
	if read := find(); read < 9 {
		t.Errorf("a search reads %d changes after 105,000 words were deleted, want all", read)
	}
	s.save(t, storetest.NewChain(mine, "Wash the beaver", "Rinse"))
	if read := find(); read != 1 {
		t.Errorf("the next search reads %d changes, want the last one", read)
	}
}

func TestAProtocolThatCannotBeReadStopsNoSearch(t *testing.T) {
	s := databases["SQLite"](t)()
	s.save(t, storetest.NewChain(mine, "Feed the heron", "Catch"), storetest.NewChain(mine, "Wash the heron", "Rinse"))
	broken := server{newOutlines(damaging{s.store}), s.store}
	broken.want(t, "heron", []string{mine}, "Wash the heron")
}

// damaging cannot read the first change.
type damaging struct{ outlines.Store }

func (d damaging) Changed(ctx context.Context, since int64, limit int) ([]library.Changed, error) {
	changes, err := d.Store.Changed(ctx, since, limit)
	if len(changes) > 0 {
		changes[0].Chain, changes[0].Damage = nil, errors.New("damaged")
	}
	return changes, err
}

func TestVectorsThatAreStoredLaterAreCompared(t *testing.T) {
	onEach(t, func(t *testing.T, open func() server) {
		a, b := open(), open()
		c := storetest.NewChain(mine, "Feed the heron", "Catch")
		a.save(t, c, storetest.NewChain(mine, "Water the basil", "Pour"))
		const model = "test/model/2"
		ask := asking("xqzv", []string{mine})
		ask.Model, ask.Vectors = model, [][]float32{{0, 1}}
		if _, err := a.Search(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		must(t, b.store.SaveVectors(t.Context(), model, map[string][]float32{protocol.PassageHash(c.Passage(0)): {0, 1}}))
		found, err := a.Search(t.Context(), ask)
		if err != nil || len(found.Choices) != 1 || found.Choices[0].Title != c.Title {
			t.Errorf("Search by meaning = %v, %v, want %q", found.Choices, err, c.Title)
		}
	})
}

// TestAnIndexIsAskedWhereThereAreManyProtocols: comparing fewer vectors in memory is faster
// than asking, and a search does without an index that cannot answer.
func TestAnIndexIsAskedWhereThereAreManyProtocols(t *testing.T) {
	s := databases["SQLite"](t)()
	heron, otter := storetest.NewChain(mine, "Feed the heron", "Catch"), storetest.NewChain(mine, "Wash the otter", "Rinse")
	s.save(t, heron, otter)
	const model = "test/model/2"
	must(t, s.store.SaveVectors(t.Context(), model, map[string][]float32{protocol.PassageHash(heron.Passage(0)): {0, 1}}))
	near := &search.Near{Found: []search.NearProtocol{{Space: mine, ChainID: otter.ID, Cosine: 0.9}, {Space: theirs, ChainID: heron.ID, Cosine: 0.9}}}
	ask := asking("xqzv", []string{mine})
	ask.Model, ask.Vectors = model, [][]float32{{0, 1}}
	for name, tc := range map[string]struct {
		many int
		near *search.Near
		want string
	}{
		"many":           {1, near, otter.Title},
		"few":            {2, near, heron.Title},
		"cannot answer":  {1, nil, heron.Title},
		"knows nothing":  {1, &search.Near{}, ""},
		"knows deleted ": {1, &search.Near{Found: []search.NearProtocol{{Space: mine, ChainID: "gone", Cosine: 1}}}, ""},
	} {
		a, err := newOutlines(s.store).Asking(fixed{tc.near}, tc.many).Search(t.Context(), ask)
		must(t, err)
		got := ""
		for _, f := range a.Choices {
			got += f.Title
		}
		if got != tc.want {
			t.Errorf("%s: found %q, want %q", name, got, tc.want)
		}
	}
}

// fixed is an index that always finds the same.
type fixed struct{ near *search.Near }

func (f fixed) Near(context.Context, []string, library.Embedding) *search.Near { return f.near }

// TestATitleIsANameOfItsProtocolOnly: what a minted title is compared with are names.
func TestATitleIsANameOfItsProtocolOnly(t *testing.T) {
	s := databases["SQLite"](t)()
	s.save(t, storetest.NewChain(mine, "Feed the heron", "Catch"), storetest.NewChain(theirs, "Heron, the: feed", "Catch"))
	for title, want := range map[string]int{"feed the HERON": 1, "the heron: feeding": 1, "Give the heron its food": 0, "Catch": 0, "": 0} {
		found, err := s.Named(t.Context(), title, []string{mine})
		if err != nil || len(found) != want {
			t.Errorf("Named(%q) = %v, %v, want %d", title, found, err, want)
		}
	}
}

// TestQueriesAreTextsAndNothingElse: what people and agents write has no syntax, and no text
// is an error.
func TestQueriesAreTextsAndNothingElse(t *testing.T) {
	s := databases["SQLite"](t)()
	s.save(t, storetest.NewChain(mine, "Walrus and narwhal", "One"), storetest.NewChain(mine, "Prüfe die Größe", "Eins"), storetest.NewChain(mine, "会議を予約する", "一"))
	for _, query := range []string{
		`"walrus`, `walrus* OR narwhal`, `NEAR(walrus narwhal, 2)`, `words:walrus`, `-walrus`, `^walrus`, `(walrus`, `{title}: walrus`,
		`walrus'; DROP TABLE chains; --`, "walrus\x00", "walrus \xff\xfe", "WALRUS", "walrus+narwhal", strings.Repeat("walrus ", 5000),
	} {
		if a := s.search(t, query, []string{mine}); len(a.Choices) == 0 || a.Choices[0].Title != "Walrus and narwhal" {
			t.Errorf("Search(%.40q) = %v, want the walrus first", query, a.Choices)
		}
	}
	query := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ a-z"*():^+\-]{0,40}`), rapid.Map(rapid.SliceOf(rapid.SampledFrom(strings.Fields(
		"walrus and AND OR NOT narwal prüf grosse 会議 über xyzzy 1"))), func(words []string) string { return strings.Join(words, " ") }))
	rapid.Check(t, func(r *rapid.T) {
		asked := asking(query.Draw(r, "query"), []string{mine})
		asked.Choices, asked.Unsure = 2, 2
		a, err := s.Search(t.Context(), asked)
		if err != nil || len(a.Choices) > 2 {
			r.Fatalf("Search = %d choices, %v, want at most 2", len(a.Choices), err)
		}
		for i, f := range a.Choices {
			if !(f.Score >= 0 && f.Score <= 1) || i > 0 && f.Score > a.Choices[i-1].Score {
				r.Fatalf("Search = %v, want falling scores from 1 to 0", a.Choices)
			}
		}
	})
}

func TestASearchThatIsCancelledSaysSo(t *testing.T) {
	s := databases["SQLite"](t)()
	s.save(t, storetest.NewChain(mine, "Feed the heron", "Catch"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Search(ctx, asking("heron", []string{mine})); !errors.Is(err, context.Canceled) {
		t.Errorf("Search = %v, want %v", err, context.Canceled)
	}
	s.want(t, "heron", []string{mine}, "Feed the heron")
}
