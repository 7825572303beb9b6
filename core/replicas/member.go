package replicas

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// beat is how often a server says that it is there.
	beat = 5 * time.Second
	// forget is how long a server that does not say so any more is remembered.
	forget = time.Hour
	// refreshTime bounds reading the other servers, while a request waits.
	refreshTime = time.Second
	// farewell bounds the last statement of a server that ends.
	farewell = 2 * time.Second
)

// idLength is the number of characters of an id: 50 unpredictable bits.
const idLength = 10

// NewID returns an id for a server that starts.
func NewID() string { return rand.Text()[:idLength] }

// Member is this server among those that share the database. Its methods may be called
// concurrently.
type Member struct {
	store Store
	self  Replica
	state func() State
	log   *slog.Logger

	leases sync.Mutex // guards jobs
	jobs   map[string]bool

	mu     sync.Mutex         // guards the fields below, and is held while they are read from the store
	others map[string]Replica // replaced as a whole
	read   time.Time          // when others was read
}

// New returns a member. state returns the present state of this server, and must
// return at once. Nothing is stored before Join.
func New(store Store, self Replica, state func() State, log *slog.Logger) *Member {
	return &Member{store: store, self: self, state: state, log: log, jobs: map[string]bool{}}
}

// ID of this server.
func (m *Member) ID() string { return m.self.ID }

// Join stores this server, after it has compared its keys with those of the others. If
// this server has an address, keys that do not fit are an error, because each of them
// would get questions of clients that it cannot open. Otherwise they are a warning. Who may
// call has to be the same at all that have an address: a proxy sends callers to any of them.
func (m *Member) Join(ctx context.Context) error {
	others, err := m.store.Replicas(ctx)
	if err != nil {
		return err
	}
	me := m.now()
	for _, other := range others {
		if me.Address != "" && other.Address == me.Address { // it was killed: this server has its address now
			if err := m.store.RemoveReplica(ctx, other.ID); err != nil {
				return err
			}
			continue
		}
		err := me.conflict(other)
		switch {
		case other.ID == me.ID || other.Lost():
		case me.Address != "" && other.Address != "" && me.State.Identity != other.State.Identity:
			return fmt.Errorf("the replica on %s (%s) has other settings of who may call: auth, oidc, spaces and operators must be the same everywhere, "+
				"or a caller whom one refuses would be let in by another. To change them stop all replicas, and then start all. A replica that was killed counts for %s",
				other.State.Host, other.Address, lostAfter)
		case err == nil:
		case me.Address != "" && other.Address != "":
			return err
		default:
			m.log.WarnContext(ctx, "another server uses this database with other keys: questions to clients can only be answered at the server that asked", "other", other.ID, "host", other.State.Host, "error", err)
		}
		if mine, its := me.State.Signing, other.State.Signing; mine != its && mine != "" && its != "" && !other.Lost() {
			m.log.WarnContext(ctx, "another server signs statements with another key: give all of them the same signing.key in keys_dir", "other", other.ID, "host", other.State.Host)
		}
	}
	return m.store.SaveReplica(ctx, me, forget)
}

// conflict reports questions that one of the two seals and the other one cannot open.
func (r Replica) conflict(other Replica) error {
	for _, pair := range [][2]Replica{{r, other}, {other, r}} {
		seals, opens := pair[0].State.Keys, pair[1].State.Keys
		if len(seals) > 0 && len(opens) > 0 && !slices.Contains(opens, seals[0]) {
			return fmt.Errorf("the replica on %s (%s) has other keys for questions to clients: the first line of state.key in keys_dir of each must be in that file of the other. "+
				"For a new key, first add it as the last line everywhere. A replica that was killed counts for %s",
				other.State.Host, other.Address, lostAfter)
		}
	}
	return nil
}

// now is this server as it is now.
func (m *Member) now() Replica {
	r := m.self
	r.State = m.state()
	m.leases.Lock()
	defer m.leases.Unlock()
	r.State.Jobs = slices.Sorted(maps.Keys(m.jobs))
	return r
}

// Run says that this server is there until ctx ends, and then that it is not any more.
func (m *Member) Run(ctx context.Context) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if err := m.store.RemoveReplica(ctx, m.self.ID); err != nil {
			m.log.WarnContext(ctx, "this server is listed until it is forgotten", "error", err)
		}
	}()
	for failed := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := m.store.SaveReplica(ctx, m.now(), forget)
		switch {
		case err != nil && !failed && ctx.Err() == nil:
			m.log.WarnContext(ctx, "the other servers are not told that this one is there", "error", err)
		case err == nil && failed:
			m.log.InfoContext(ctx, "the other servers are told again that this one is there")
		}
		failed = err != nil
	}
}

// Holders returns the servers that can hold sessions of clients: the owner of the session if
// it is there, and then the others in the order in which they take the session over. Servers
// that know of each other return the same. This server is one of them.
func (m *Member) Holders(ctx context.Context, owner, session string) []Replica {
	all := []Replica{m.self}
	if owner == m.self.ID || len(owner) != idLength {
		return all
	}
	for id, r := range m.known(ctx, owner) {
		if id != m.self.ID && r.Address != "" && !r.Lost() {
			all = append(all, r)
		}
	}
	weights := make(map[string]string, len(all))
	for _, r := range all {
		sum := sha256.Sum256([]byte(r.ID + " " + session))
		weights[r.ID] = string(sum[:])
	}
	slices.SortFunc(all, func(a, b Replica) int {
		if first := owns(b, owner) - owns(a, owner); first != 0 {
			return first
		}
		return cmp.Compare(weights[a.ID], weights[b.ID])
	})
	return all
}

func owns(r Replica, owner string) int {
	if r.ID == owner {
		return 1
	}
	return 0
}

// known returns the servers of the database, read again if the one with the id is not among
// them. Nobody may change the map.
func (m *Member) known(ctx context.Context, id string) map[string]Replica {
	asked := time.Now()
	m.mu.Lock() // one read at a time, whose result all use that waited for it
	defer m.mu.Unlock()
	_, known := m.others[id]
	if age := asked.Sub(m.read); age > beat || !known && age > 0 {
		m.refreshLocked(ctx)
	}
	return m.others
}

// refreshLocked reads the other servers. Without the database they stay as they were.
func (m *Member) refreshLocked(ctx context.Context) {
	m.read = time.Now()
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	all, err := m.store.Replicas(ctx)
	if err != nil {
		m.log.DebugContext(ctx, "the other servers could not be read", "error", err)
		return
	}
	m.others = make(map[string]Replica, len(all))
	for _, r := range all {
		m.others[r.ID] = r
	}
}
