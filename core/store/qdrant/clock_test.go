package qdrant_test

import (
	"context"
	"strings"
	"testing"
	"time"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/clock/clocktest"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// reserve is what a process leaves that ended while it held the places of
// several chains: they are reserved until then.
func reserve(t *testing.T, c *pb.Client, name string, until time.Time) {
	t.Helper()
	if _, err := c.SetPayload(t.Context(), &pb.SetPayloadPoints{
		CollectionName: name, Wait: pb.PtrOf(true),
		Payload:        pb.NewValueMap(map[string]any{"lock": "of another process", "lock_until": until.UnixMilli()}),
		PointsSelector: pb.NewPointsSelectorFilter(&pb.Filter{Must: []*pb.Condition{pb.NewMatchKeyword("kind", "manifest")}}),
	}); err != nil {
		t.Fatalf("SetPayload = %v", err)
	}
}

func TestAReservationDoesNotOutliveAClockThatIsSetBack(t *testing.T) {
	address := qdranttest.Start(t)
	collection := collection(t, address)
	machine := clocktest.New(time.Now())
	s := open(t, qdrant.Options{URL: address, Collection: collection, Clock: clock.New(machine)})
	for name, tc := range map[string]struct {
		ends time.Duration // the reservation, from what the clock shows
		free bool
	}{
		"one that holds":                  {9 * time.Second, false},
		"one by a clock that is ahead":    {50 * time.Second, false},
		"one that is over":                {-time.Second, true},
		"one from before the set-back":    {5 * time.Hour, true},
		"one from before a year was lost": {365 * 24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			one, other := storetest.NewChain(space, "One "+name, "First"), storetest.NewChain(space, "Other "+name, "First")
			save(t, s, one)
			save(t, s, other)
			reserve(t, dialed(t, address), collection, machine.Wall().Add(tc.ends))
			ctx, cancel := context.WithTimeout(t.Context(), patience(tc.free))
			defer cancel()
			_, single := s.SaveChains(ctx, []library.Change{{Chain: one, Replaces: 1}})
			if (single == nil) != tc.free {
				t.Errorf("SaveChains(one) = %v, want it saved: %t", single, tc.free)
			}
			if !tc.free {
				return
			}
			reserve(t, dialed(t, address), collection, machine.Wall().Add(tc.ends))
			if _, err := s.SaveChains(ctx, []library.Change{{Chain: one, Replaces: 2}, {Chain: other, Replaces: 1}}); err != nil {
				t.Errorf("SaveChains(both) = %v, want them saved", err)
			}
		})
	}
}

// patience is how long a save is waited for.
func patience(free bool) time.Duration {
	if free {
		return time.Minute
	}
	return time.Second
}

// TestASetBackHidesNoWordsOfOthers: what another process stores after the clock
// was set back is completed and corrected here, too.
func TestASetBackHidesNoWordsOfOthers(t *testing.T) {
	address := qdranttest.Start(t)
	name := collection(t, address)
	machine := clocktest.New(time.Now())
	at := func() *qdrant.Store {
		return open(t, qdrant.Options{URL: address, Collection: name, Clock: clock.New(machine)})
	}
	s, other := at(), at()
	found := func(word string) int {
		t.Helper()
		hits, err := s.Search(t.Context(), library.Query{Text: word, Spaces: []string{space}, Limit: 5})
		if err != nil {
			t.Fatalf("Search(%s) = %v", word, err)
		}
		return len(hits)
	}
	save(t, other, storetest.NewChain(space, "Zebrafish", "Feeding"))
	if found("zebraf") != 1 {
		t.Fatal("the words of the other process are not found")
	}
	machine.Jump(-5 * time.Hour)
	machine.Pass(time.Second)
	save(t, other, storetest.NewChain(space, "Hippopotamus", "Bathing"))
	machine.Pass(time.Minute)
	if n := found(strings.ToLower("Hippopot")); n != 1 {
		t.Errorf("%d protocols are found, want the one that was stored after the set-back", n)
	}
}

// TestAJumpForwardSweepsNothingThatIsUnderWay: an intent that is younger than
// Options.SweepAge is left, whatever the clock shows.
func TestAJumpForwardSweepsNothingThatIsUnderWay(t *testing.T) {
	address := qdranttest.Start(t)
	name := collection(t, address)
	machine := clocktest.New(time.Now())
	s := open(t, qdrant.Options{URL: address, Collection: name, SweepAge: time.Hour, Clock: clock.New(machine)})
	save(t, s, storetest.NewChain(space, "One", "First"))
	c := dialed(t, address)
	intents := func() (n int) {
		for _, p := range points(t, c, name) {
			if p.GetPayload()["kind"].GetStringValue() == "intent" {
				n++
			}
		}
		return n
	}
	if _, err := c.Upsert(t.Context(), &pb.UpsertPoints{CollectionName: name, Wait: pb.PtrOf(true), Points: []*pb.PointStruct{{
		Id: pb.NewIDUUID("7b1c5f0e-4a3d-4a44-9d5e-0c54d1f4a001"), Vectors: pb.NewVectorsMap(map[string]*pb.Vector{}),
		Payload: pb.NewValueMap(map[string]any{"kind": "intent", "token": "of a save", "written_at": machine.Wall().UnixMilli()}),
	}}}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		change func()
		want   int
	}{
		{func() { machine.Jump(365 * 24 * time.Hour) }, 1},
		{func() { machine.Jump(-365 * 24 * time.Hour) }, 1},
		{func() { machine.Pass(2 * time.Hour) }, 0},
	} {
		tc.change()
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatalf("Sweep = %v", err)
		}
		if n := intents(); n != tc.want {
			t.Errorf("after Sweep there are %d intents, want %d", n, tc.want)
		}
	}
}
