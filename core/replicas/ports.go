package replicas

import (
	"context"
	"time"
)

// Store keeps the rows of servers and jobs. All its times are those of the database's
// clock, so that the clocks of servers need not agree. Every method may block, honours
// its context, and is called concurrently, also by several processes.
type Store interface {
	// SaveReplica stores a server as seen now, and removes those that were not seen for
	// the time forget.
	SaveReplica(ctx context.Context, r Replica, forget time.Duration) error
	// RemoveReplica removes a server. It is not an error if there is none.
	RemoveReplica(ctx context.Context, id string) error
	// Replicas returns all servers, the one that has run longest first.
	Replicas(ctx context.Context) ([]Replica, error)
	// TakeLease gives a job to a holder for a time from now on, and reports whether it
	// did: nobody else holds it. The holder calls it again to keep the job.
	TakeLease(ctx context.Context, job, holder string, ttl time.Duration) (bool, error)
	// ReturnLease ends the lease of a job if the holder has it.
	ReturnLease(ctx context.Context, job, holder string) error
}

// Replica is a server that uses the database.
type Replica struct {
	ID string `json:"id"` // new at every start
	// Address is where other servers reach it, empty if they cannot.
	Address string    `json:"address,omitempty"`
	Version string    `json:"version"`
	Started time.Time `json:"started"` // by the clock of its machine
	// Unseen is how long ago it was seen last.
	Unseen time.Duration `json:"-"`
	State  State         `json:"state"`
}

// State is what a server tells about itself.
type State struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// HTTP is where it serves clients, empty if it does not listen.
	HTTP string `json:"http,omitempty"`
	// Keys are the names of the keys that it opens questions of clients with; it seals
	// them with the first one. Signing is the name of the key that signs statements.
	Keys    []string `json:"keys,omitempty"`
	Signing string   `json:"signing,omitempty"`
	// Identity is a fingerprint of who may call and what they may do there; empty: the server
	// does not say.
	Identity string `json:"identity,omitempty"`
	// NotReady says why it does not serve calls, empty if it does.
	NotReady string   `json:"not_ready,omitempty"`
	Drivers  []Driver `json:"drivers"`
	// Jobs are those that it does for all servers.
	Jobs []string `json:"jobs,omitempty"`
}

// Driver is a driver of a server.
type Driver struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"`
}

// lostAfter is how long a server may be unseen until it counts as lost. It is long,
// because a server that was only stopped for a while keeps its sessions.
const lostAfter = time.Minute

// Lost reports whether the server has ended without saying so, or cannot reach the
// database.
func (r Replica) Lost() bool { return r.Unseen > lostAfter }
