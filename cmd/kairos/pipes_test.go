package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
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
		p.open[key] = newOverPipe(p.b.pipe(p.t, p.era, can))
	}
	c := &mcpClient{carrier: p.open[key], t: t, b: p.b, era: p.era, can: can}
	c.again = p.visit
	return c
}

// overPipe is a connection over the standard streams of a server.
type overPipe struct {
	*piped

	mu    sync.Mutex // guards the fields below and writes
	last  int
	calls []*piping // that have no reply yet, the newest last
	over  bool
}

func newOverPipe(p *piped) *overPipe {
	o := &overPipe{piped: p, last: p.id}
	go o.read()
	return o
}

// read gives each reply to its call, and a question to the newest: a client
// cannot know whose it is.
func (o *overPipe) read() {
	for {
		line, err := o.out.ReadString('\n')
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
		if at >= 0 && !strings.HasPrefix(m.Method, "notifications/") {
			o.calls[at].said <- line
			if m.Method == "" {
				o.calls = slices.Delete(o.calls, at, at+1)
			}
		}
		o.mu.Unlock()
	}
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
	eventually(o.t, "the server to end", o.gone)
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
