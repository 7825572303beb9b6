package replicas

import (
	"context"
	"sync"
	"time"
)

const (
	// leaseTime is how long a job stays with a server that does not say any more that
	// it does it.
	leaseTime = 30 * time.Second
	// leaseEvery is how often a server extends its lease, or tries to get one.
	leaseEvery = leaseTime / 3
)

// Lead calls do whenever this server gets the job, until ctx ends or do returns by
// itself. At most one server at a time does a job, save for the time that do takes to
// notice that its context has ended.
func (m *Member) Lead(ctx context.Context, job string, do func(context.Context)) {
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		asked := time.Now()
		got, err := m.store.TakeLease(ctx, job, m.self.ID, leaseTime)
		if err != nil {
			m.log.DebugContext(ctx, "it is not known which server does a job", "job", job, "error", err)
		}
		if got && m.hold(ctx, job, asked.Add(leaseTime), do) {
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// hold does the job as long as the lease is extended. It reports whether do has
// returned by itself.
func (m *Member) hold(ctx context.Context, job string, until time.Time, do func(context.Context)) (done bool) {
	m.log.InfoContext(ctx, "this server does a job for all servers of the database", "job", job)
	m.leads(job)
	defer m.leadsNoMore(job)
	held, end := context.WithCancel(ctx)
	returned := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		defer close(returned)
		do(held)
	})
	done = m.extend(held, job, until, returned)
	end()
	work.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := m.store.ReturnLease(ctx, job, m.self.ID); err != nil {
		m.log.DebugContext(ctx, "another server gets the job when the lease has run out", "job", job, "error", err)
	}
	return done
}

func (m *Member) leads(job string) {
	m.leases.Lock()
	defer m.leases.Unlock()
	m.jobs[job] = true
}

func (m *Member) leadsNoMore(job string) {
	m.leases.Lock()
	defer m.leases.Unlock()
	delete(m.jobs, job)
}

// extend extends the lease until it is lost, the context ends or the job has returned.
func (m *Member) extend(ctx context.Context, job string, until time.Time, returned <-chan struct{}) (done bool) {
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for {
		select {
		case <-returned:
			return ctx.Err() == nil
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		asked := time.Now()
		// A reply after the end of the lease is too late.
		attempt, cancel := context.WithDeadline(ctx, until)
		got, err := m.store.TakeLease(attempt, job, m.self.ID, leaseTime)
		cancel()
		switch {
		case err == nil && got:
			until = asked.Add(leaseTime)
		case err == nil || !asked.Add(leaseEvery).Before(until):
			m.log.WarnContext(ctx, "another server does the job from now on", "job", job, "error", err)
			return false
		}
	}
}
