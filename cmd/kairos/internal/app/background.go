package app

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

// background is what an operator does to a running server: reload by signal, by
// changing files and by the commands that use the admin socket.
type background struct {
	app    *App
	shared *replica        // nil: the database is this server's own
	admin  *socket.Server  // nil: turned off
	ctx    context.Context // of everything in the background; ends with close
	cancel context.CancelFunc
	hangup chan os.Signal
	work   sync.WaitGroup
}

// newBackground listens to SIGHUP. What can be seen from outside waits for begin.
func newBackground(ctx context.Context, a *App, shared *replica, config string) *background {
	o := &background{app: a, shared: shared, hangup: make(chan os.Signal, 1)}
	if at := adminSocket(a.Config); at != "" {
		var tokens func() ([]string, error)
		if shared != nil && shared.relay != nil {
			tokens = func() ([]string, error) { return sharedTokens(a.stateKeys) }
		}
		o.admin = socket.NewServer(at, operations.NewHandler(a.Operations(), machine(a, config), asOperator(a)), tokens, a.log)
	}
	o.ctx, o.cancel = context.WithCancel(ctx)
	signal.Notify(o.hangup, syscall.SIGHUP)
	o.start("a reload", o.reloadOnHangup)
	if shared != nil && shared.relay != nil {
		o.start("the list of servers", func() { shared.run(o.ctx, a.log.Warn) }) // it has joined
	}
	return o
}

// start runs do in the background under a name, until it returns.
func (o *background) start(name string, do func()) {
	o.work.Go(func() {
		_ = o.app.working.during(name, func() error { do(); return nil })
	})
}

func (o *background) reloadOnHangup() {
	for {
		select {
		case <-o.ctx.Done():
			return
		case <-o.hangup:
			if _, err := o.app.setup.Reload(o.ctx); err != nil {
				o.app.log.Error("SIGHUP: the reload is refused, the server continues as before", "error", err)
			}
		}
	}
}

// begin is called once, with the first tool call.
func (o *background) begin() {
	o.app.host.ProtectMemory()
	if o.admin != nil {
		if err := o.admin.Prepare(); err != nil { // drivers that start now are to be kept from it
			o.app.log.Warn("admin folder cannot be made", "error", err)
		}
		o.start("the admin socket", func() {
			if err := o.admin.Listen(); err != nil {
				o.app.log.Warn("`kairos driver` cannot reach this server; SIGHUP can", "error", err)
			}
		})
	}
	if r := o.shared; r != nil && r.relay == nil {
		o.start("the list of servers", func() { r.run(o.ctx, o.app.log.Warn) })
	}
	o.beginJobs()
	if !*o.app.Config.Drivers.Watch {
		return
	}
	o.start("a reload", func() {
		if err := o.app.setup.Watch(o.ctx); err != nil {
			o.app.log.Warn("changed files are not taken up; send SIGHUP instead", "error", err)
		}
	})
}

// beginJobs begins what one of the servers of a database does for all.
func (o *background) beginJobs() {
	jobs := map[string]func(context.Context){jobRuns: o.sweep}
	if o.app.Config.Embedding.Endpoint() {
		jobs[jobVectors] = o.app.Engine.Library.FillVectors
	}
	if o.app.Index != nil {
		jobs[jobIndex] = o.app.Index.Feeder.Run
	}
	for job, do := range jobs {
		o.start("the job "+job, func() { o.shared.lead(o.ctx, job, do) })
	}
}

// sweepEvery is how often runs whose time has passed are ended.
const sweepEvery = 10 * time.Minute

// sweep ends runs whose time has passed and removes old ones, now and again.
func (o *background) sweep(ctx context.Context) {
	every(ctx, sweepEvery, func() {
		swept, err := o.app.Engine.Archive.Sweep(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			o.app.log.Warn("runs whose time has passed were not all ended", "expired", swept.Expired, "removed", swept.Removed, "error", err)
		case swept != archive.Swept{}:
			o.app.log.Info("runs whose time has passed were ended", "expired", swept.Expired, "removed", swept.Removed)
		}
	})
}

// every calls do at once and then at intervals until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	pause := time.NewTicker(interval)
	defer pause.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// onNews calls do whenever there is news for clients.
func (o *background) onNews(news <-chan struct{}, do func()) {
	o.start("news for clients", func() {
		for {
			select {
			case <-o.ctx.Done():
				return
			case <-news:
				do()
			}
		}
	})
}

// close ends it all and waits. It is called after the last begin.
func (o *background) close() error {
	signal.Stop(o.hangup)
	o.cancel()
	o.work.Wait()
	if o.admin == nil {
		return nil
	}
	return o.app.working.during("the admin socket", o.admin.Close)
}

// databaseOf names the database for other processes of this machine.
func databaseOf(c config.Config) string {
	for _, file := range c.Database.Files() {
		return file
	}
	return c.Database.String()
}
