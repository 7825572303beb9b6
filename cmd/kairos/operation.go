package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/server/admin"
)

// operation is what an operator does to a running server: reload by signal, by
// changing files and by the commands that use the admin socket.
type operation struct {
	app    *app
	admin  *admin.Server   // nil: turned off
	ctx    context.Context // of everything in the background; ends with close
	cancel context.CancelFunc
	hangup chan os.Signal
	work   sync.WaitGroup
}

// newOperation listens to SIGHUP. What can be seen from outside waits for begin.
func newOperation(ctx context.Context, a *app, config string) *operation {
	o := &operation{app: a, hangup: make(chan os.Signal, 1)}
	if socket := a.config.adminSocket(); socket != "" {
		o.admin = admin.NewServer(socket, admin.Info{
			PID: os.Getpid(), Version: a.version, StartedAt: time.Now(), DriversDir: absolute(a.config.Drivers.Dir)[0],
			Database: absolute(a.config.Database)[0], Config: config, Watch: *a.config.Drivers.Watch,
		}, a.host, a.setup, a.log)
	}
	o.ctx, o.cancel = context.WithCancel(ctx)
	signal.Notify(o.hangup, syscall.SIGHUP)
	o.work.Go(o.reloadOnHangup)
	return o
}

func (o *operation) reloadOnHangup() {
	for {
		select {
		case <-o.ctx.Done():
			return
		case <-o.hangup:
			if _, err := o.app.setup.Reload(o.ctx); err != nil {
				o.app.log.Error("SIGHUP: the reload is refused, everything goes on as before", "error", err)
			}
		}
	}
}

// adminSocket is where this process is to listen; empty: nowhere.
func (c config) adminSocket() string {
	switch s := c.Admin.Socket; s {
	case "":
		return admin.DefaultSocket()
	case adminOff:
		return ""
	default:
		return absolute(admin.SocketIn(s))[0]
	}
}

// begin is called once, with the first tool call.
func (o *operation) begin() {
	o.app.host.ProtectMemory()
	if o.admin != nil {
		if err := o.admin.Prepare(); err != nil { // drivers that start now are to be kept from it
			o.app.log.Warn("admin folder cannot be made", "error", err)
		}
		o.work.Go(func() {
			if err := o.admin.Listen(); err != nil {
				o.app.log.Warn("`kairos driver` cannot reach this server; SIGHUP can", "error", err)
			}
		})
	}
	o.work.Go(func() { o.app.engine.FillVectors(o.ctx) })
	o.work.Go(o.sweep)
	if !*o.app.config.Drivers.Watch {
		return
	}
	o.work.Go(func() {
		if err := o.app.setup.Watch(o.ctx); err != nil {
			o.app.log.Warn("changed files are not taken up; send SIGHUP instead", "error", err)
		}
	})
}

// sweepEvery is how often runs whose time has passed are ended.
const sweepEvery = 10 * time.Minute

// sweep ends runs whose time has passed, removes old ones and corrects the
// handover file, now and again.
func (o *operation) sweep() {
	pause := time.NewTicker(sweepEvery)
	defer pause.Stop()
	for {
		swept, err := o.app.engine.Sweep(o.ctx)
		if h := o.app.handover; h != nil {
			err = errors.Join(err, h.Reconcile(o.ctx, o.app.engine.Standing))
		}
		switch {
		case o.ctx.Err() != nil:
			return
		case err != nil:
			o.app.log.Warn("runs whose time has passed were not all ended", "expired", swept.Expired, "removed", swept.Removed, "error", err)
		case swept != engine.Swept{}:
			o.app.log.Info("runs whose time has passed were ended", "expired", swept.Expired, "removed", swept.Removed)
		}
		select {
		case <-o.ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// tell calls do after the setup was replaced.
func (o *operation) tell(do func() error) {
	o.work.Go(func() {
		for {
			select {
			case <-o.ctx.Done():
				return
			case <-o.app.setup.Switched():
				if err := do(); err != nil {
					o.app.log.Error("clients were not told of the change", "error", err)
				}
			}
		}
	})
}

// close ends it all and waits. It is called after the last begin.
func (o *operation) close() error {
	signal.Stop(o.hangup)
	o.cancel()
	o.work.Wait()
	if o.admin == nil {
		return nil
	}
	return o.admin.Close()
}
