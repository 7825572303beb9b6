package app

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/replicas"
	"github.com/kairos-mcp/kairos/core/server/relay"
)

// Background jobs that one server does for all servers of a database.
const (
	jobRuns    = "runs"    // end and remove runs whose time has passed
	jobVectors = "vectors" // embed passages that have no vector
	jobIndex   = "index"   // feed the index of protocols
)

// replica is this server among those that share its database. A nil replica is a server
// whose database is its own.
type replica struct {
	*replicas.Member
	relay *relay.Relay // nil: the others do not pass requests on to this server
}

// newReplica says that this server is one of those that share the database. It refuses a
// server that the others reach and whose keys are not theirs.
func newReplica(ctx context.Context, a *App, by Transports) (*replica, error) {
	store := a.Store.Servers
	if store == nil {
		return nil, nil
	}
	self := replicas.Replica{ID: replicas.NewID(), Version: a.Version, Started: time.Now()}
	if by.HTTP {
		self.Address = a.Config.Replica.Address
	}
	names := cache.Once(func() (keyFingerprints, error) { return fingerprintsOf(a) })
	identity, err := config.Identity(a.Config)
	if err != nil {
		return nil, err
	}
	r := &replica{Member: replicas.New(store, self, func() replicas.State {
		s := replicaState(a)
		known, err := names()
		if err != nil {
			a.log.Debug("not all keys are there yet", "error", err)
		}
		s.Keys, s.Signing, s.Identity = known.state, known.signing, identity
		return s
	}, a.log)}
	if self.Address == "" {
		return r, nil
	}
	keys, err := a.stateKeys()
	if err != nil {
		return nil, err
	}
	if _, err := a.Config.Keys().Signing(); err != nil {
		return nil, err
	}
	if r.relay, err = relay.New(relay.Config{ID: self.ID, Holders: r.holders, Keys: keys}, a.log); err != nil {
		return nil, err
	}
	if err := r.Join(ctx); err != nil {
		return nil, fmt.Errorf("join the replicas of %s: %w", a.Config.Database, err)
	}
	return r, nil
}

// replicaState is what the other servers and `kairos status` read about this one.
func replicaState(a *App) replicas.State {
	host, _ := os.Hostname() // empty then
	s := replicas.State{Host: host, PID: os.Getpid(), HTTP: a.mainPort.String(), Drivers: []replicas.Driver{}}
	if err := driversWork(a.host); err != nil {
		s.NotReady = err.Error()
	}
	for _, d := range a.host.Status() {
		s.Drivers = append(s.Drivers, replicas.Driver{Name: d.Name, Version: d.Version, State: string(d.State)})
	}
	return s
}

// keyFingerprints tell apart the keys that servers of one database share. They reveal nothing
// of the keys.
type keyFingerprints struct {
	state   []string
	signing string
}

// fingerprintsOf identifies the state keys, which it makes where none is kept, and the
// signing key, which it does not make. The error says which could not be read; the others are
// returned all the same.
func fingerprintsOf(a *App) (names keyFingerprints, err error) {
	keys, err := a.stateKeys()
	for _, key := range keys {
		name, err := hkdf.Key(sha256.New, key[:], nil, "kairos name of a state key 1", 8)
		if err != nil {
			panic(err) // 8 bytes can be derived
		}
		names.state = append(names.state, hex.EncodeToString(name))
	}
	if _, missing := os.Stat(a.Config.Keys().SigningFile()); missing != nil {
		return names, errors.Join(err, missing) // it is made when first needed
	}
	key, unreadable := a.Config.Keys().Signing()
	if unreadable != nil {
		return names, errors.Join(err, unreadable)
	}
	names.signing = key.Public().ID()
	return names, err
}

// mark stands in front of the ids of sessions that begin here. It is empty where no other
// server passes requests on.
func (r *replica) mark() string {
	if r == nil || r.relay == nil {
		return ""
	}
	return r.ID()
}

// pass passes requests of other replicas' sessions on to them.
func (r *replica) pass(mcp http.Handler) http.Handler {
	if r == nil || r.relay == nil {
		return mcp
	}
	return r.relay.Pass(mcp)
}

// holders are the replicas that may hold a session, in order.
func (r *replica) holders(ctx context.Context, owner, session string) (all []relay.Holder) {
	for _, other := range r.Holders(ctx, owner, session) {
		all = append(all, relay.Holder{ID: other.ID, Address: other.Address})
	}
	return all
}

// accept accepts requests that other replicas pass on.
func (r *replica) accept(h http.Handler) http.Handler {
	if r == nil || r.relay == nil {
		return h
	}
	return r.relay.Accept(h)
}

// run keeps the others informed until ctx ends. It joins them if that was not done at
// the start.
func (r *replica) run(ctx context.Context, log func(msg string, args ...any)) {
	if r.relay == nil {
		if err := r.Join(ctx); err != nil && ctx.Err() == nil {
			log("the other servers of the database are not told of this one yet", "error", err)
		}
	}
	r.Run(ctx)
}

// lead does a job while no other server does it.
func (r *replica) lead(ctx context.Context, job string, do func(context.Context)) {
	if r == nil {
		do(ctx)
		return
	}
	r.Lead(ctx, job, do)
}

// Replicas lists the servers that use the database; shared is false for a database that
// does not keep them.
func Replicas(ctx context.Context, a *App) (all []replicas.Replica, shared bool, err error) {
	if a.Store.Servers == nil {
		return nil, false, nil
	}
	all, err = a.Store.Servers.Replicas(ctx)
	return all, true, err
}
