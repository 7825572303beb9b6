package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/replicas"
)

func TestReplicasAreListedUntilTheyAreForgotten(t *testing.T) {
	address := withSchema(t)
	s, other := open(t, address), open(t, address)
	want := replicas.Replica{
		ID: "one", Address: "http://10.0.0.5:3300", Version: "1.2.3", Started: time.Unix(1700000000, 5),
		State: replicas.State{Host: "a", PID: 7, Keys: []string{"k"}, Drivers: []replicas.Driver{{Name: "shell", Version: "1", State: "ready"}}},
	}
	late := replicas.Replica{ID: "two", Started: time.Unix(1800000000, 0), State: replicas.State{Drivers: []replicas.Driver{}}}
	save := func(r replicas.Replica, forget time.Duration) {
		t.Helper()
		must(t, s.SaveReplica(t.Context(), r, forget))
	}
	listed := func() []replicas.Replica {
		t.Helper()
		all, err := other.Replicas(t.Context())
		must(t, err)
		for i := range all {
			if all[i].Unseen < 0 || all[i].Unseen > time.Minute || all[i].Lost() {
				t.Errorf("%s was seen %s ago, want that it was now", all[i].ID, all[i].Unseen)
			}
			all[i].Unseen = 0
		}
		return all
	}
	save(late, time.Hour)
	save(want, time.Hour)
	want.State.NotReady = "drivers"
	save(want, time.Hour)
	if diff := cmp.Diff([]replicas.Replica{want, late}, listed()); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
	execute(t, address, `UPDATE replicas SET seen = seen - 3600000000000 WHERE id <> '`+want.ID+`'`)
	save(want, 30*time.Minute)
	if diff := cmp.Diff([]replicas.Replica{want}, listed()); diff != "" {
		t.Errorf("after the other one was forgotten (-want +got):\n%s", diff)
	}
	for range 2 {
		if err := s.RemoveReplica(t.Context(), "one"); err != nil {
			t.Error(err)
		}
	}
	if all := listed(); len(all) > 0 {
		t.Errorf("after it was removed: %v", all)
	}
}

func TestOneOfManyHoldsTheLease(t *testing.T) {
	address := withSchema(t)
	s := open(t, address)
	take := func(holder string, ttl time.Duration) bool {
		t.Helper()
		got, err := s.TakeLease(t.Context(), "job", holder, ttl)
		if err != nil {
			t.Error(err)
		}
		return got
	}
	var holders atomic.Int64
	var holder atomic.Value
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		all.Go(func() {
			if take(name, time.Hour) {
				holders.Add(1)
				holder.Store(name)
			}
		})
	}
	all.Wait()
	if n := holders.Load(); n != 1 {
		t.Fatalf("%d of 8 got the job, want 1", n)
	}
	name := holder.Load().(string)
	if !take(name, time.Hour) {
		t.Error("the holder cannot extend its lease")
	}
	if err := s.ReturnLease(t.Context(), "job", "nobody"); err != nil || take("next", time.Millisecond) {
		t.Errorf("another one could return the lease (%v)", err)
	}
	if err := s.ReturnLease(t.Context(), "job", name); err != nil {
		t.Error(err)
	}
	if !take("next", 20*time.Millisecond) {
		t.Error("a lease that was returned is not given to the next one")
	}
	if got, err := s.TakeLease(t.Context(), "another job", "a", time.Hour); !got || err != nil {
		t.Errorf("another job = %t, %v, want that it has a lease of its own", got, err)
	}
	for end := time.Now().Add(20 * time.Second); !take("last", time.Hour); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a lease that has run out is not given to another one")
		}
	}
}
