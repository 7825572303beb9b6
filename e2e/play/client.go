package play

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
)

// clientArg turns this binary into a player: a process that can be killed.
const clientArg = "play-client"

// Client is a player in a process of its own. Its ledger is a file that survives it.
type Client struct {
	t       *testing.T
	args    []string
	journal string
	log     string

	cmd *exec.Cmd
}

// NewClient returns player i in a process of its own. It is not started.
func NewClient(t *testing.T, s *Server, i int, uri string) *Client {
	c := &Client{t: t, journal: s.Path(fmt.Sprintf("client%d.ledger", i)), log: s.Path(fmt.Sprintf("client%d.log", i))}
	c.args = []string{clientArg, s.front(), strconv.Itoa(i), uri, c.journal}
	t.Cleanup(c.Kill)
	return c
}

// Start starts the player, also after Kill: it continues the run that its ledger tells of.
func (c *Client) Start() {
	log, err := os.OpenFile(c.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer log.Close() //nolint:errcheck // the player writes to its own
	self, err := os.Executable()
	if err != nil {
		c.t.Error(err)
		return
	}
	c.cmd = exec.CommandContext(c.t.Context(), self, c.args...)
	c.cmd.Stderr = log
	if err := c.cmd.Start(); err != nil {
		c.t.Error(err)
		c.cmd = nil
	}
}

// Kill kills the player, wherever it is.
func (c *Client) Kill() {
	if c.cmd == nil {
		return
	}
	_ = c.cmd.Process.Kill() // it may have ended, which finish reports
	_ = c.cmd.Wait()
	c.cmd = nil
}

// Finish lets the player finish its run, and adds what it knows to the ledger.
func (c *Client) Finish(l *Ledger) {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // if it has ended, Wait says so
	if err := c.cmd.Wait(); err != nil {
		log, _ := os.ReadFile(c.log)
		c.t.Errorf("a client ended with %v:\n%s", err, log)
	}
	c.cmd = nil
	if err := l.Merge(c.journal); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.t.Error(err)
	}
}

// problems is the reporter of a player in a process of its own.
type problems struct{ failed atomic.Bool }

func (p *problems) Errorf(format string, args ...any) {
	p.failed.Store(true)
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (p *problems) Failed() bool { return p.failed.Load() }

// serveClient is the player: it plays until SIGTERM, and finishes its last run.
func serveClient(server, number, uri, journal string) error {
	i, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	l := NewLedger()
	file, err := openJournal(journal)
	if err != nil {
		return err
	}
	if err := l.Merge(journal); err != nil {
		return err
	}
	l.journal = file
	stop := make(chan struct{})
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		close(stop)
	}()
	told := new(problems)
	p := newPlayer(told, server, func() string { return "" }, l, NewPoints(), i, uri)
	p.name = fmt.Sprintf("%s-%d", p.name, os.Getpid()) // it begins no run under the name of another
	for _, r := range l.open() {
		if open := p.resume(r); open != nil {
			p.onward(r, open)
		}
	}
	p.Play(stop)
	if told.Failed() {
		return errors.New("the player found a fault")
	}
	return nil
}

// open lists the runs that were begun and not finished.
func (l *Ledger) open() (open []*Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.runs {
		if !e.ended {
			open = append(open, e)
		}
	}
	return open
}

// resume takes up a run that another process has begun.
func (p *Player) resume(r *Entry) *api.StepReply {
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); time.Sleep(rand.N(30 * time.Millisecond)) {
		fresh := new(api.StepReply)
		err := p.call("kairos_begin", map[string]any{"uri": p.uri, "session_id": r.id}, fresh)
		switch {
		case err != nil:
			p.Leave()
		case fresh.ErrorCode == "NO_OPEN_RUN":
			// The attestation was the call that nobody heard the reply to.
			p.attest(r, &api.StepReply{CurrentStep: api.CurrentStep{URI: p.uri}}, "success")
			return nil
		case fresh.RunID != "":
			p.l.resumed(p.t, r, fresh)
			return fresh
		}
	}
	p.t.Errorf("run %s cannot be resumed", r.id)
	return nil
}
