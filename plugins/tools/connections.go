package main

import (
	"context"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/internal/mcpclient"
)

// end ends the server, once. How it takes that is its own affair.
func (k *kept) end() { k.once.Do(func() { _ = k.Close() }) }

// cancelGrace is how long a server may take to end a cancelled call by itself.
const cancelGrace = 500 * time.Millisecond

// connections keeps servers running between calls. Safe for concurrent use.
type connections struct {
	mu   sync.Mutex
	open map[string]*kept // by server name
}

// kept is an open connection.
type kept struct {
	*mcpclient.Connection
	launch string // digest of how it was started
	users  int
	idle   *time.Timer
	gone   bool // it is closed with its last user
	once   sync.Once
}

// to returns the connection to a server and starts it if need be. One that was
// started in another way than is configured now ends with its last call.
func (cs *connections) to(ctx context.Context, name string, s mcpclient.Server, idle time.Duration) (*mcpclient.Connection, func(), error) {
	cs.mu.Lock()
	k := cs.open[name]
	if k != nil && k.launch != s.LaunchDigest() {
		cs.forget(name, k)
		k = nil
	}
	if k != nil {
		k.users++
		k.idle.Stop()
		cs.mu.Unlock()
		return k.Connection, cs.releaser(k, idle), nil
	}
	cs.mu.Unlock()
	c, err := mcpclient.Open(ctx, name, s, mcpclient.Options{})
	if err != nil {
		return nil, nil, err
	}
	k = &kept{Connection: c, launch: s.LaunchDigest(), users: 1}
	k.idle = time.AfterFunc(idle, func() { cs.end(name, k) })
	k.idle.Stop()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open == nil {
		cs.open = map[string]*kept{}
	}
	if other := cs.open[name]; other != nil {
		k.gone = true // somebody else has started it meanwhile: this one serves one call
	} else {
		cs.open[name] = k
	}
	return c, cs.releaser(k, idle), nil
}

func (cs *connections) releaser(k *kept, idle time.Duration) func() {
	return func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		if k.users--; k.users > 0 {
			return
		}
		if k.gone {
			go k.end()
			return
		}
		k.idle.Reset(idle)
	}
}

// drop ends a connection that does not work any more.
func (cs *connections) drop(c *mcpclient.Connection) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for name, k := range cs.open {
		if k.Connection == c {
			cs.forget(name, k)
		}
	}
}

// stop ends the process of a connection after a grace, unless it has other users. It
// reports whether the process has ended.
func (cs *connections) stop(c *mcpclient.Connection) bool {
	if !c.Local() {
		return false
	}
	time.Sleep(cancelGrace)
	cs.mu.Lock()
	var alone *kept
	for name, k := range cs.open {
		if k.Connection == c && k.users == 1 {
			cs.forget(name, k)
			alone = k
		}
	}
	cs.mu.Unlock()
	if alone != nil {
		alone.end()
	}
	return alone != nil
}

// forget needs the lock.
func (cs *connections) forget(name string, k *kept) {
	delete(cs.open, name)
	k.gone = true
	if k.users == 0 {
		k.idle.Stop()
		go k.end()
	}
}

func (cs *connections) end(name string, k *kept) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if k.users == 0 && cs.open[name] == k {
		cs.forget(name, k)
	}
}
