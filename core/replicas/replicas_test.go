package replicas_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kairos-mcp/kairos/core/replicas"
)

// table is the rows of a database whose clock is that of the test.
type table struct {
	mu     sync.Mutex // guards the fields below
	rows   map[string]replicas.Replica
	seen   map[string]time.Time
	holder map[string]string
	until  map[string]time.Time
	reads  int
	// down makes every call fail, cut those of one server.
	down bool
	cut  string
}

func newTable() *table {
	return &table{rows: map[string]replicas.Replica{}, seen: map[string]time.Time{}, holder: map[string]string{}, until: map[string]time.Time{}}
}

var errDown = errors.New("the database is down")

func (t *table) SaveReplica(_ context.Context, r replicas.Replica, _ time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return errDown
	}
	t.rows[r.ID], t.seen[r.ID] = r, time.Now()
	return nil
}

func (t *table) RemoveReplica(_ context.Context, id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, id)
	return nil
}

func (t *table) Replicas(context.Context) (all []replicas.Replica, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return nil, errDown
	}
	t.reads++
	for id, r := range t.rows {
		r.Unseen = time.Since(t.seen[id])
		all = append(all, r)
	}
	return all, nil
}

func (t *table) TakeLease(_ context.Context, job, holder string, ttl time.Duration) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down || t.cut == holder {
		return false, errDown
	}
	if t.holder[job] != holder && time.Now().Before(t.until[job]) {
		return false, nil
	}
	t.holder[job], t.until[job] = holder, time.Now().Add(ttl)
	return true, nil
}

func (t *table) ReturnLease(_ context.Context, job, holder string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down || t.cut == holder {
		return errDown
	}
	if t.holder[job] == holder {
		delete(t.until, job)
	}
	return nil
}

func (t *table) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

func join(t *testing.T, m *replicas.Member) {
	t.Helper()
	if err := m.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func member(t *table, id string, keys ...string) *replicas.Member {
	return replicas.New(t, replicas.Replica{ID: id, Address: "http://" + id}, func() replicas.State { return replicas.State{Keys: keys, Host: "host-" + id} }, slog.New(slog.DiscardHandler))
}

// owner returns where the owner of a session is; false: another server takes the session.
func owner(t *testing.T, m *replicas.Member, id string) (address string, ok bool) {
	t.Helper()
	first := m.Holders(t.Context(), id, "session")[0]
	return first.Address, first.ID == id
}

func TestReplicasAgreeWhoTakesASessionOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := newTable()
		var members []*replicas.Member
		for range 5 {
			m := member(rows, replicas.NewID())
			join(t, m)
			members = append(members, m)
		}
		time.Sleep(time.Nanosecond)
		order := func(m *replicas.Member, owner, session string) string {
			var ids []string
			for _, r := range m.Holders(t.Context(), owner, session) {
				ids = append(ids, r.ID)
			}
			return strings.Join(ids, " ")
		}
		took := map[string]int{}
		ended := replicas.NewID()
		for i := range 100 {
			session := fmt.Sprint("session ", i)
			want := order(members[0], ended, session)
			for _, m := range members[1:] {
				if got := order(m, ended, session); got != want {
					t.Fatalf("the order of %s = %s, want %s as at the first server", session, got, want)
				}
				if got := order(m, members[0].ID(), session); !strings.HasPrefix(got, members[0].ID()+" ") || len(got) != len(want) {
					t.Fatalf("the order of %s = %s, want its owner first", session, got)
				}
			}
			took[want[:len(ended)]]++
		}
		if len(took) != len(members) {
			t.Errorf("the sessions go to %v, want them spread over all servers", took)
		}
	})
}

func TestReplicasAreFoundAsSoonAsTheyJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := newTable()
		one, two := replicas.NewID(), replicas.NewID()
		first, second := member(rows, one), member(rows, two)
		join(t, first)
		find := func(want bool) {
			t.Helper()
			time.Sleep(time.Nanosecond)
			if address, ok := owner(t, first, two); ok != want || ok && address != "http://"+two {
				t.Errorf("the other replica is at %q, %t, want %t", address, ok, want)
			}
		}
		find(false)
		join(t, second)
		ctx, leave := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { second.Run(ctx) })
		find(true)
		time.Sleep(time.Hour) // it is seen all the time
		find(true)
		rows.set(func() { rows.down = true })
		time.Sleep(time.Hour) // without the database everything stays as it was
		find(true)
		rows.set(func() { rows.down = false })
		time.Sleep(10 * time.Second)
		leave()
		run.Wait()
		time.Sleep(6 * time.Second)
		find(false)
		reads := rows.reads
		for range 1000 {
			owner(t, first, one)
			owner(t, first, "no id at all")
		}
		if rows.reads != reads {
			t.Errorf("ids that no replica can have cost %d reads", rows.reads-reads)
		}
	})
}

func TestAReplicaThatWasKilledIsLostInAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := newTable()
		id := replicas.NewID()
		first, killed := member(rows, replicas.NewID()), member(rows, id)
		join(t, killed)
		time.Sleep(30 * time.Second) // it may have been stopped only for a while
		if _, ok := owner(t, first, id); !ok {
			t.Error("it is not found 30 s after it was killed")
		}
		time.Sleep(time.Minute)
		if _, ok := owner(t, first, id); ok {
			t.Error("it is found a minute after it was killed")
		}
	})
}

func TestReplicasHaveKeysInCommon(t *testing.T) {
	for name, tc := range map[string]struct {
		there, joins []string
		fits         bool
	}{
		"the same key":               {[]string{"a"}, []string{"a"}, true},
		"a new key that others know": {[]string{"a", "b"}, []string{"b", "a"}, true},
		"a new key known by all":     {[]string{"a"}, []string{"a", "b"}, true},
		"a key of its own":           {[]string{"a"}, []string{"b"}, false},
		"a new key too early":        {[]string{"a"}, []string{"b", "a"}, false},
		"the old key no more":        {[]string{"a", "b"}, []string{"b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			rows := newTable()
			join(t, member(rows, "one", tc.there...))
			err := member(rows, "two", tc.joins...).Join(t.Context())
			if tc.fits != (err == nil) || err != nil && (!strings.Contains(err.Error(), "host-one") || !strings.Contains(err.Error(), "state.key in keys_dir")) {
				t.Errorf("Join with %v beside %v = %v, want that it fits: %t", tc.joins, tc.there, err, tc.fits)
			}
			if _, joined := rows.rows["two"]; joined != tc.fits {
				t.Errorf("it is listed: %t, want %t", joined, tc.fits)
			}
		})
	}
}

// Behind one proxy every replica lets in the same callers, or none of them knows whom the
// others have let in.
func TestReplicasAgreeWhoMayCall(t *testing.T) {
	for name, tc := range map[string]struct {
		there, joins string
		address      string
		killed, fits bool
	}{
		"the same":                           {"a", "a", "http://two", false, true},
		"another one":                        {"a", "b", "http://two", false, false},
		"none, where there is one":           {"a", "", "http://two", false, false},
		"one, where there is none":           {"", "b", "http://two", false, false},
		"another one, without address":       {"a", "b", "", false, true},
		"another one, and the first is lost": {"a", "b", "http://two", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			rows := newTable()
			with := func(id, address, identity string) *replicas.Member {
				return replicas.New(rows, replicas.Replica{ID: id, Address: address}, func() replicas.State {
					return replicas.State{Host: "host-" + id, Keys: []string{"k"}, Identity: identity}
				}, slog.New(slog.DiscardHandler))
			}
			join(t, with("one", "http://one", tc.there))
			if tc.killed {
				rows.seen["one"] = time.Now().Add(-2 * time.Minute)
			}
			err := with("two", tc.address, tc.joins).Join(t.Context())
			if tc.fits != (err == nil) || err != nil && (!strings.Contains(err.Error(), "host-one") || !strings.Contains(err.Error(), "auth, oidc, spaces and operators")) {
				t.Errorf("Join = %v, want that it fits: %t", err, tc.fits)
			}
		})
	}
}

// A server that the others do not reach may have keys of its own: its clients reach no
// other server either. It warns, because that may not be meant.
func TestAServerWithoutAnAddressMayHaveOtherKeys(t *testing.T) {
	rows := newTable()
	join(t, member(rows, "one", "a"))
	var log strings.Builder
	m := replicas.New(rows, replicas.Replica{ID: "two"}, func() replicas.State { return replicas.State{Keys: []string{"b"}} }, slog.New(slog.NewTextHandler(&log, nil)))
	if err := m.Join(t.Context()); err != nil {
		t.Errorf("Join = %v, want nil", err)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "other=one") {
		t.Errorf("it logs %q, want a warning that names the other server", &log)
	}
}

// A replica that was killed and started again does not have to wait until it counts as
// lost, also if its keys were changed meanwhile.
func TestAReplicaTakesThePlaceOfTheOneThatHadItsAddress(t *testing.T) {
	rows := newTable()
	for _, server := range []struct{ id, key string }{{"killed", "a"}, {"again", "b"}} {
		self := replicas.Replica{ID: server.id, Address: "http://10.0.0.5:3300"}
		m := replicas.New(rows, self, func() replicas.State { return replicas.State{Keys: []string{server.key}} }, slog.New(slog.DiscardHandler))
		if err := m.Join(t.Context()); err != nil {
			t.Fatalf("%s: Join = %v, want nil", server.id, err)
		}
	}
	if _, there := rows.rows["again"]; !there || len(rows.rows) != 1 {
		t.Errorf("listed are %v, want the one that was started again", rows.rows)
	}
}

// doing is which servers do a job.
type doing struct {
	mu   sync.Mutex // guards the fields below
	now  map[string]bool
	most int
	did  []string
}

func (d *doing) job(name string) func(context.Context) {
	return func(ctx context.Context) {
		d.mu.Lock()
		d.now[name] = true
		d.most = max(d.most, len(d.now))
		d.did = append(d.did, name)
		d.mu.Unlock()
		<-ctx.Done()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.now, name)
	}
}

func (d *doing) who() string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.now {
		return name
	}
	return ""
}

func TestOneServerDoesAJobAndAnotherTakesItOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, d := newTable(), &doing{now: map[string]bool{}}
		end := map[string]context.CancelFunc{}
		var work sync.WaitGroup
		for _, name := range []string{"a", "b", "c"} {
			ctx, cancel := context.WithCancel(t.Context())
			end[name] = cancel
			work.Go(func() { member(rows, name).Lead(ctx, "job", d.job(name)) })
		}
		first := d.who()
		time.Sleep(time.Hour)
		if first == "" || d.who() != first {
			t.Errorf("after an hour %q does the job, want %q still", d.who(), first)
		}
		// One that ends returns its lease, so that another one begins with its next attempt.
		end[first]()
		time.Sleep(11 * time.Second)
		second := d.who()
		if second == "" || second == first {
			t.Errorf("after %q ended %q does the job", first, second)
		}
		// One that cannot reach the database stops before the lease runs out.
		rows.set(func() { rows.cut = second })
		time.Sleep(41 * time.Second)
		third := d.who()
		if third == "" || third == second {
			t.Errorf("after %q was cut off %q does the job", second, third)
		}
		// Without the database nobody does it.
		rows.set(func() { rows.down = true })
		time.Sleep(31 * time.Second)
		if who := d.who(); who != "" {
			t.Errorf("without the database %q does the job", who)
		}
		for _, cancel := range end {
			cancel()
		}
		work.Wait()
		if d.most != 1 {
			t.Errorf("%d servers did the job at a time (%v)", d.most, d.did)
		}
	})
}

func TestAJobThatReturnsIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, times := newTable(), 0
		member(rows, "a").Lead(t.Context(), "job", func(context.Context) { times++ })
		if times != 1 {
			t.Errorf("it was done %d times, want once", times)
		}
		if got, _ := rows.TakeLease(t.Context(), "job", "b", time.Second); !got {
			t.Error("its lease was not returned")
		}
	})
}
