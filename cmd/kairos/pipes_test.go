package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

// pipes are servers on standard streams. Clients that can do the same share one,
// one after the other; of the modern era all do, since each call says what its
// client can.
type pipes struct {
	b    *program // with the same store
	t    *testing.T
	era  string
	open map[string]*overPipe // by capabilities
}

// visit introduces a client to a server of its own.
func (p *pipes) visit(t *testing.T, can string) *mcpClient {
	t.Helper()
	key := can
	if p.era == modernEra {
		key = ""
	}
	if o := p.open[key]; o == nil || o.gone() {
		p.open[key] = p.b.pipe(p.t, p.era, can).overPipe
	}
	c := &mcpClient{carrier: p.open[key], t: t, b: p.b, era: p.era, can: can}
	c.again = p.visit
	return c
}

// piped is a client of a server on standard streams that it has started.
type piped struct {
	*mcpClient
	*overPipe
}

// pipe starts a server as a host does.
func (s *served) pipe(t *testing.T, era, can string, args ...string) *piped {
	t.Helper()
	o := &overPipe{test: t, cmd: s.program(append([]string{"serve"}, args...)...), log: &s.stderr}
	o.cmd.Stderr = o.log
	var err error
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go o.read(bufio.NewReader(out))
	t.Cleanup(func() {
		_ = o.in.Close()
		if o.cmd.ProcessState == nil {
			_ = o.cmd.Wait() // some were killed
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", o.log.String())
		}
	})
	p := &piped{&mcpClient{carrier: o, t: t, era: era, can: can}, o}
	if era == modernEra {
		return p
	}
	e, err := o.open("", "", func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"piped","version":"1"}}}`, id, era, can)
	})
	if err == nil {
		_, err = e.message()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// leave ends the client; the server sees its stdin end.
func (p *piped) leave() {
	p.t.Helper()
	_ = p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the server whose client left: %v", err)
	}
}

// kill ends the server.
func (p *piped) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed
}

// overPipe is a connection over the standard streams of a server.
type overPipe struct {
	test *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	log  *programs.Output

	mu       sync.Mutex // guards the fields below and writes
	last     int
	calls    []*piping // that have no reply yet, the newest last
	over     bool
	progress string // that was reported
}

// read gives each reply to its call, and a question to the newest: a client
// cannot know whose it is.
func (o *overPipe) read(out *bufio.Reader) {
	for {
		line, err := out.ReadString('\n')
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err == nil {
			err = json.Unmarshal([]byte(line), &m)
		}
		o.mu.Lock()
		if err != nil {
			o.over = true
			for _, e := range o.calls {
				close(e.said)
			}
			o.calls = nil
			o.mu.Unlock()
			return
		}
		at := len(o.calls) - 1
		if m.Method == "" {
			at = slices.IndexFunc(o.calls, func(e *piping) bool { return fmt.Sprint(e.id) == string(m.ID) })
		}
		if m.Method == "notifications/progress" {
			o.progress += line
		}
		if at >= 0 && !strings.HasPrefix(m.Method, "notifications/") {
			o.calls[at].said <- line
			if m.Method == "" {
				o.calls = slices.Delete(o.calls, at, at+1)
			}
		}
		o.mu.Unlock()
	}
}

// reported is the progress that was reported until now.
func (o *overPipe) reported() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.progress
}

func (o *overPipe) gone() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over
}

// write sends a line. Needs the lock.
func (o *overPipe) write(message string) error {
	_, err := io.WriteString(o.in, message+"\n")
	return err
}

func (o *overPipe) open(_, _ string, message func(id int) string) (exchange, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return nil, io.ErrClosedPipe
	}
	o.last++
	e := &piping{overPipe: o, id: o.last, said: make(chan string, 64)}
	o.calls = append(o.calls, e)
	return e, o.write(message(e.id))
}

func (o *overPipe) tell(message string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.write(message)
}

func (o *overPipe) lately() string { return ending(o.log.String()) }

// vanish ends client and server, which go together.
func (o *overPipe) vanish(exchange) {
	_ = o.in.Close()
	eventually(o.test, "the server to end", o.gone)
}

// piping is a call over standard streams.
type piping struct {
	*overPipe
	id   int
	said chan string
}

func (e *piping) message() (string, error) {
	select {
	case line, ok := <-e.said:
		if !ok {
			return "", io.ErrUnexpectedEOF
		}
		return line, nil
	case <-time.After(time.Minute):
		return "", errors.New("nothing within a minute")
	}
}

func (e *piping) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := slices.Index(e.calls, e)
	if at < 0 {
		return // it has its reply
	}
	e.calls = slices.Delete(e.calls, at, at+1)
	_ = e.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, e.id)) // it may have gone
}
