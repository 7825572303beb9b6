package qdrant_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/qdrant/go-client/qdrant"
	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/outlines"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	space  = "user:test:mine"
	theirs = "user:test:theirs"
)

// fed is a database, the index that is made from it, and a program that knows
// nothing of both but where the earlier server kept its steps.
type fed struct {
	t          testing.TB
	store      *sqlitetest.Store
	index      *qdrant.Index
	feeder     *index.Feeder
	searcher   *outlines.Outlines // asks the index, however few protocols there are
	raw        *pb.Client
	collection string
}

// feed opens a new database and a new index on the server.
func feed(t testing.TB, address string, o ...qdrant.Options) *fed {
	t.Helper()
	return feedFrom(t, address, filepath.Join(t.TempDir(), "kairos.db"), qdranttest.Collection(t, address), o...)
}

func feedFrom(t testing.TB, address, path, collection string, options ...qdrant.Options) *fed {
	t.Helper()
	var o qdrant.Options
	if len(options) > 0 {
		o = options[0]
	}
	o.URL, o.Collection = address, collection
	s, err := sqlitetest.Open(path, nil)
	must(t, err)
	x, err := qdrant.New(o, nil)
	if err != nil {
		t.Fatalf("New = %v, want nil", err)
	}
	f := &fed{t: t, store: s, index: x, feeder: index.New(s, x, nil), raw: qdranttest.Dial(t, address), collection: collection}
	f.searcher = outlines.New(s, nil, slog.New(slog.DiscardHandler)).Asking(f.feeder, 0)
	t.Cleanup(func() {
		must(t, x.Close())
		must(t, s.Close())
	})
	return f
}

// save stores a chain over a revision.
func (f *fed) save(c protocol.Chain, replaces int64) {
	f.t.Helper()
	if _, err := f.store.SaveChains(f.t.Context(), []library.Change{{Chain: c, Replaces: replaces}}); err != nil {
		f.t.Fatalf("SaveChains(%s) = %v, want nil", c.Title, err)
	}
}

func (f *fed) delete(c protocol.Chain, replaces int64) {
	f.t.Helper()
	must(f.t, f.store.DeleteChain(f.t.Context(), c.Space, c.ID, replaces))
}

func (f *fed) deliver() {
	f.t.Helper()
	must(f.t, f.feeder.Deliver(f.t.Context()))
}

func (f *fed) rebuild() {
	f.t.Helper()
	must(f.t, f.feeder.Rebuild(f.t.Context(), func(int) {}))
}

// behind checks how many protocols the index does not have yet.
func (f *fed) behind(want int) {
	f.t.Helper()
	if n, err := f.store.Behind(f.t.Context(), 10); err != nil || n != want {
		f.t.Errorf("Behind = %d, %v, want %d", n, err, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run feeds the index in the background until the test ends.
func (f *fed) run() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.feeder.Run(ctx) }()
	f.t.Cleanup(func() { cancel(); <-done })
}

// good checks that index and database agree.
func (f *fed) good(protocols int) {
	f.t.Helper()
	r, err := f.feeder.Compare(f.t.Context(), func(int) {})
	if err != nil || !r.Good() || r.Protocols != protocols {
		f.t.Errorf("Compare = %+v, %v, want %d protocols as they are stored", r, err, protocols)
	}
}

// model of the vectors of the tests, which have four dimensions.
const model = "test/model/4"

// embed stores a vector for each step of the chains: of the protocol with number
// n it points into direction n.
func (f *fed) embed(model string, length int, chains ...protocol.Chain) {
	f.t.Helper()
	vectors := map[string][]float32{}
	for n, c := range chains {
		for i := range c.Steps {
			vectors[protocol.PassageHash(c.Passage(i))] = pointing(length, n)
		}
	}
	must(f.t, f.store.SaveVectors(f.t.Context(), model, vectors))
}

func pointing(length, n int) []float32 {
	v := make([]float32, length)
	v[n%length] = 1
	return v
}

// find returns the titles that a search by the vector alone finds.
func (f *fed) find(vector []float32, model string) string {
	f.t.Helper()
	found, err := f.searcher.Search(f.t.Context(), asking("xyzzy", vector, model))
	if err != nil {
		f.t.Fatalf("Search = %v, want nil", err)
	}
	var titles []string
	for _, h := range found.Choices {
		titles = append(titles, h.Title)
	}
	return strings.Join(titles, ", ")
}

func asking(text string, vector []float32, model string) library.Query {
	return library.Query{Model: model, Request: search.Request{Texts: []string{text}, Vectors: [][]float32{vector}, Spaces: []string{space}, Choices: 5, Unsure: 5}}
}

// near asks the index alone.
func (f *fed) near(vector []float32) []search.NearProtocol {
	f.t.Helper()
	n, err := f.index.Nearest(f.t.Context(), []string{space}, library.Embedding{Model: model, Vector: vector}, 10)
	if err != nil || n == nil {
		f.t.Fatalf("Nearest = %v, %v, want an answer", n, err)
	}
	return n.Found
}

func chain(space, title string, labels ...string) protocol.Chain {
	return storetest.NewChain(space, title, labels...)
}

// eventually waits until nothing is wrong.
func eventually(t testing.TB, wrong func() string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		says := wrong()
		if says == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(says)
		}
	}
}

func TestDeliveriesMayBeRepeatedAndLate(t *testing.T) {
	f := feed(t, qdranttest.Start(t))
	c := chain(space, "Walrus care", "Feed", "Wash")
	f.save(c, 0)
	f.deliver()
	id, err := f.store.DatabaseID(t.Context())
	must(t, err)
	if found, err := f.index.Find(t.Context(), id, index.Model{}); err != nil || found == "" {
		t.Fatalf("Find = %q, %v, want the index", found, err)
	}
	put := func(revision int64, c protocol.Chain) {
		t.Helper()
		d := index.Document{Entry: index.Entry{Revision: revision, Space: space, ChainID: chain(space, "Walrus care").ID}, Chain: c}
		must(t, f.index.Put(t.Context(), []index.Document{d}))
	}
	want := func(after string, steps int, text string) {
		t.Helper()
		n, err := f.index.Count(t.Context())
		p := f.step(c.Steps[0].UUID)
		if err != nil || n != steps || steps > 0 && p["text"] != text {
			t.Errorf("after %s the index has %d steps, %v, the first one %v, want %d and %q", after, n, err, p["text"], steps, text)
		}
	}
	older, newer := c, c
	newer.Steps = append([]protocol.Step{}, c.Steps[:1]...)
	newer.Steps[0].Text = "newer"
	put(1000, newer)
	want("a newer delivery", 1, "newer")
	put(1000, newer)
	want("the same again", 1, "newer")
	put(999, older)
	want("a late one", 2, "newer") // the second step is not removed by the late one, and not there in the newer
	put(1000, newer)
	want("a repetition", 1, "newer")
	put(999, protocol.Chain{})
	want("a late deletion", 1, "newer")
	put(1001, protocol.Chain{})
	want("a deletion", 0, "")
}

func TestWhatWasJustStoredIsFound(t *testing.T) {
	f := feed(t, qdranttest.Start(t))
	walrus, otter := chain(space, "Walrus care", "Feed"), chain(space, "Otter care", "Feed")
	f.save(walrus, 0)
	f.embed(model, 4, walrus)
	if got := f.find(pointing(4, 0), model); got != "Walrus care" {
		t.Errorf("a search before there is an index finds %q, want the walrus", got)
	}
	f.deliver()
	f.save(otter, 0)
	f.embed(model, 4, walrus, otter)
	if got := f.find(pointing(4, 1), model); got != "Otter care" {
		t.Errorf("a search after a save finds %q, want the otter", got)
	}
	f.behind(0) // otherwise the index was not asked
	if near := f.near(pointing(4, 1)); len(near) != 2 || near[0].ChainID != otter.ID {
		t.Errorf("Nearest = %+v, want the otter first", near)
	}
	f.delete(otter, 1)
	if got := f.find(pointing(4, 1), model); got != "" {
		t.Errorf("a search after a deletion finds %q, want nothing", got)
	}
	f.good(1)
}

func TestAKilledServerIsCaughtUpWith(t *testing.T) {
	server := qdranttest.New(t, qdranttest.Options{})
	f := feed(t, server.Address(), qdrant.Options{Options: client.Options{Timeout: 6 * time.Second}})
	first := chain(space, "Walrus care", "Feed", "Wash")
	f.save(first, 0)
	f.embed(model, 4, first)
	f.run()
	f.good(1)
	server.Kill(t)
	later := chain(space, "Otter care", "Feed")
	f.save(later, 0)
	f.embed(model, 4, first, later)
	f.delete(first, 1)
	began := time.Now()
	if got := f.find(pointing(4, 1), model); got != "Otter care" {
		t.Errorf("a search without the server finds %q, want the otter", got)
	}
	found, err := f.searcher.Search(t.Context(), asking("otter care", nil, ""))
	if err != nil || len(found.Choices) != 1 {
		t.Errorf("Search by words without the server = %v, %v, want the otter", found.Choices, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("searches without the server took %s, want them not to wait for it", took)
	}
	if err := f.feeder.Health(t.Context()); fault.CodeOf(err) != fault.StoreUnavailable {
		t.Errorf("Health = %v, want %s", err, fault.StoreUnavailable)
	}
	server.Restart(t)
	eventually(t, func() string {
		if n, err := f.store.Behind(t.Context(), 1); err != nil || n > 0 {
			return "the index does not catch up"
		}
		return ""
	})
	f.good(1)
	eventually(t, func() string {
		if err := f.feeder.Health(t.Context()); err != nil {
			return "Health = " + err.Error() + ", want nil"
		}
		return ""
	})
}

// Killed again and again while it is fed, the index has everything in the end.
func TestAServerThatIsKilledWhileItIsFedLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes 20 s")
	}
	server := qdranttest.New(t, qdranttest.Options{})
	f := feed(t, server.Address(), qdrant.Options{Options: client.Options{Timeout: 2 * time.Second}})
	f.run()
	var saved []protocol.Chain
	for round := range 4 {
		for i := range 60 {
			c := chain(space, "Protocol "+strconv.Itoa(round)+" "+strconv.Itoa(i), "One", "Two")
			f.save(c, 0)
			saved = append(saved, c)
			f.feeder.Wake()
		}
		server.Kill(t)
		f.delete(saved[round], 1)
		server.Restart(t)
	}
	f.good(len(saved) - 4)
}

// refusing is an index that does not accept protocols with a title.
type refusing struct {
	*qdrant.Index
	title string
}

func (r refusing) Put(ctx context.Context, documents []index.Document) error {
	for _, d := range documents {
		if d.Chain.Title == r.title {
			return fault.New(fault.InvalidArgument, "%q is not accepted", r.title)
		}
	}
	return r.Index.Put(ctx, documents)
}

func TestAProtocolThatIsNotAcceptedDoesNotStopTheOthers(t *testing.T) {
	f := feed(t, qdranttest.Start(t))
	var log strings.Builder
	feeder := index.New(f.store, refusing{f.index, "Odd"}, slog.New(slog.NewTextHandler(&log, nil)))
	for _, title := range []string{"Walrus care", "Odd", "Otter care"} {
		f.save(chain(space, title, "One"), 0)
	}
	must(t, feeder.Deliver(t.Context()))
	if n, err := f.index.Count(t.Context()); err != nil || n != 2 {
		t.Errorf("Count = %d, %v, want the two that are accepted", n, err)
	}
	f.behind(0) // otherwise the odd one would be tried for ever
	if !strings.Contains(log.String(), `"Odd\" is not accepted`) {
		t.Errorf("the log does not name the odd one:\n%s", log.String())
	}
}
