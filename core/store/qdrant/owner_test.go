package qdrant_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
)

// wantRefused checks that nothing reads or changes what does not belong to the
// database, and that the error names the remedy.
func (f *fed) wantRefused(says, remedy string) {
	f.t.Helper()
	id, err := f.store.DatabaseID(f.t.Context())
	must(f.t, err)
	for call, err := range map[string]error{
		"Check": f.index.Check(f.t.Context(), id), "Deliver": f.feeder.Deliver(f.t.Context()), "Rebuild": f.feeder.Rebuild(f.t.Context(), func(int) {}),
	} {
		var e *fault.Error
		if !errors.As(err, &e) || e.Code != fault.Conflict || !strings.Contains(e.Message, says) || !strings.Contains(e.Hint, remedy) {
			f.t.Errorf("%s = %v, want %s that says %q and %q", call, err, fault.Conflict, says, remedy)
		}
	}
}

func (f *fed) collections() []string {
	f.t.Helper()
	all, err := f.raw.ListCollections(f.t.Context())
	must(f.t, err)
	var mine []string
	for _, name := range all {
		if strings.HasPrefix(name, f.collection) {
			mine = append(mine, name)
		}
	}
	return mine
}

func (f *fed) wantCollections(n int) {
	f.t.Helper()
	if all := f.collections(); len(all) != n {
		f.t.Errorf("the collections are %q, want %d", all, n)
	}
}

func TestTheIndexOfAnotherDatabaseIsRefusedAndStays(t *testing.T) {
	address := qdranttest.Start(t)
	first := feed(t, address)
	first.save(chain(space, "Walrus care", "Feed"), 0)
	first.deliver()
	second := feedFrom(t, address, filepath.Join(t.TempDir(), "other.db"), first.collection)
	second.save(chain(space, "Otter care", "Feed"), 0)
	second.wantRefused("the index of another database", "QDRANT_COLLECTION")
	first.good(1)
	// Its collections that have lost the alias are not swept either.
	must(t, first.raw.DeleteAlias(t.Context(), first.collection))
	second.deliver()
	second.rebuild()
	second.good(1)
	first.wantCollections(2)
}

// A database that was restored from a backup takes over the index.
func TestAnIndexIsReplacedOnRequest(t *testing.T) {
	address := qdranttest.Start(t)
	first := feed(t, address)
	first.save(chain(space, "Walrus care", "Feed"), 0)
	first.deliver()
	second := feedFrom(t, address, filepath.Join(t.TempDir(), "restored.db"), first.collection)
	second.save(chain(space, "Otter care", "Feed"), 0)
	second.wantRefused("the index of another database", "kairos db index rebuild --replace")
	must(t, second.index.Release(t.Context()))
	second.rebuild()
	second.good(1)
	second.wantCollections(1)
}

func TestWhatThisProgramDidNotMakeIsRefusedAndStays(t *testing.T) {
	address := qdranttest.Start(t)
	for name, tc := range map[string]struct{ collection, alias, says, remedy string }{
		"a collection of the earlier server": {"", "", "did not make", "kairos import --from-qdrant"},
		"an alias of another program":        {"_else", "", "did not make", "another name"},
	} {
		t.Run(name, func(t *testing.T) {
			f := feed(t, address)
			c := f.collection + tc.collection
			must(t, f.raw.CreateCollection(t.Context(), &pb.CreateCollection{CollectionName: c, VectorsConfig: pb.NewVectorsConfigMap(nil)}))
			if tc.collection != "" {
				must(t, f.raw.CreateAlias(t.Context(), f.collection, c))
			}
			f.save(chain(space, "Walrus care", "Feed"), 0)
			f.wantRefused(tc.says, tc.remedy)
			if err := f.index.Release(t.Context()); err != nil {
				t.Errorf("Release = %v, want nil", err)
			}
			f.wantRefused(tc.says, tc.remedy)
		})
	}
}

func TestAnotherModelMakesTheIndexAnew(t *testing.T) {
	f := feed(t, qdranttest.Start(t))
	c := chain(space, "Walrus care", "Feed", "Wash")
	f.save(c, 0)
	f.good(1)
	for model, length := range map[string]int{"test/model/4": 4, "test/model/8": 8, "test/other/8": 8} {
		f.embed(model, length, c)
		f.deliver()
		if got := f.find(pointing(length, 0), model); got != c.Title {
			t.Errorf("a search with a vector of %s finds %q, want the protocol", model, got)
		}
		f.good(1)
		f.behind(0)
	}
	f.wantCollections(1)
}

// A collection that somebody removed, or that a new server does not have, is made
// and filled again.
func TestALostCollectionIsMadeAgain(t *testing.T) {
	f := feed(t, qdranttest.Start(t))
	f.save(chain(space, "Walrus care", "Feed"), 0)
	f.deliver()
	for _, name := range f.collections() {
		must(t, f.raw.DeleteCollection(t.Context(), name))
	}
	f.save(chain(space, "Otter care", "Feed"), 0)
	_ = f.feeder.Deliver(t.Context()) // finds out
	f.deliver()
	f.good(2)
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]qdrant.Options{
		"no url":     {},
		"collection": {Collection: "a b"},
		"long":       {Collection: strings.Repeat("x", 121)},
	} {
		if name != "no url" {
			o.URL = "localhost"
		}
		if _, err := qdrant.New(o, nil); err == nil {
			t.Errorf("New(%s) = nil, want an error", name)
		}
	}
}

func TestServersThatStartTogetherMakeOneIndex(t *testing.T) {
	address := qdranttest.Start(t)
	path, name := filepath.Join(t.TempDir(), "kairos.db"), qdranttest.Collection(t, address)
	first, second := feedFrom(t, address, path, name), feedFrom(t, address, path, name)
	for i := range 100 {
		first.save(chain(space, "Protocol "+strconv.Itoa(i), "One"), 0)
	}
	var both sync.WaitGroup
	for _, f := range []*fed{first, second} {
		both.Go(func() {
			if err := f.feeder.Deliver(t.Context()); err != nil {
				t.Errorf("Deliver = %v, want nil", err)
			}
		})
	}
	both.Wait()
	first.good(100)
	second.good(100)
	first.wantCollections(1)
}

// While two servers deliver, protocols change and go; the index agrees in the end.
func TestServersThatDeliverTogetherAgreeInTheEnd(t *testing.T) {
	address := qdranttest.Start(t)
	path, name := filepath.Join(t.TempDir(), "kairos.db"), qdranttest.Collection(t, address)
	first, second := feedFrom(t, address, path, name), feedFrom(t, address, path, name)
	first.run()
	second.run()
	for i := range 40 {
		c := chain(space, "Protocol "+strconv.Itoa(i), "One", "Two")
		first.save(c, 0)
		first.feeder.Wake()
		second.feeder.Wake()
		c.Steps = c.Steps[:1]
		first.save(c, 1)
		if i%2 == 0 {
			first.delete(c, 2)
		}
		second.feeder.Wake()
	}
	first.good(20)
}

func TestLargeProtocolsAreIndexedWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: writes 10 MB and 10,000 steps")
	}
	f := feed(t, qdranttest.Start(t), qdrant.Options{Options: client.Options{Timeout: 2 * time.Minute}})
	long := chain(space, "Ten megabytes", "One", "Two")
	long.Steps[1].Text = "## Two\n\n" + strings.Repeat("All work and no play makes a long protocol. ", 10<<20/44)
	f.save(long, 0)
	f.save(chain(space, "Ten thousand steps", make([]string, 10_000)...), 0)
	f.good(2)
}

// slow is an index of a process that is stopped once, between reading a protocol
// and writing it.
type slow struct {
	*qdrant.Index
	meanwhile func()
}

func (s *slow) Put(ctx context.Context, documents []index.Document) error {
	if do := s.meanwhile; do != nil {
		s.meanwhile = nil
		do()
	}
	return s.Index.Put(ctx, documents)
}

func TestAProtocolThatIsDeletedMeanwhileDoesNotComeBack(t *testing.T) {
	address := qdranttest.Start(t)
	path, name := filepath.Join(t.TempDir(), "kairos.db"), qdranttest.Collection(t, address)
	first, second := feedFrom(t, address, path, name), feedFrom(t, address, path, name)
	first.deliver()
	c := chain(space, "Walrus care", "Feed")
	first.save(c, 0)
	stopped := &slow{Index: first.index, meanwhile: func() {
		second.delete(c, 1)
		second.deliver()
	}}
	must(t, index.New(first.store, stopped, nil).Deliver(t.Context()))
	if got := first.step(c.Steps[0].UUID); got != nil {
		t.Errorf("the step of a deleted protocol is in the index: %v", got)
	}
	first.good(0)
}
