package relay_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/server/relay"
)

// node is a replica whose MCP endpoint tells what it gets.
type node struct {
	*httptest.Server
	id    string
	relay *relay.Relay
	got   []string // method, session and client's address of each request
}

// cluster is where replicas are, by their ids.
type cluster map[string]string

// holders is the owner, and then all others by their names.
func (c cluster) holders(_ context.Context, owner, _ string) (all []relay.Holder) {
	for _, id := range slices.Sorted(maps.Keys(c)) {
		if h := (relay.Holder{ID: id, Address: c[id]}); id == owner {
			all = slices.Insert(all, 0, h)
		} else {
			all = append(all, h)
		}
	}
	return all
}

func (c cluster) start(t *testing.T, id string, keys ...[32]byte) *node {
	t.Helper()
	r, err := relay.New(relay.Config{ID: id, Holders: c.holders, Keys: keys}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{id: id, relay: r}
	local := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		host, _, _ := strings.Cut(req.RemoteAddr, ":")
		body, _ := io.ReadAll(req.Body)
		n.got = append(n.got, fmt.Sprint(req.Method, " ", req.Header.Get("Mcp-Session-Id"), " ", host, " ", string(body)))
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Mcp-Session-Id", req.Header.Get("Mcp-Session-Id"))
		fmt.Fprint(w, "from "+id)
	})
	guards := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Vary", "Origin")
		r.Pass(local).ServeHTTP(w, req)
	})
	n.Server = httptest.NewServer(r.Accept(guards))
	c[id] = n.URL
	t.Cleanup(func() { n.Close(); r.Close() })
	return n
}

// session is the id of a session that began at the node.
func (n *node) session() string { return n.id + ".abc" }

func (n *node) send(t *testing.T, method, session, body string, header ...string) (status int, reply string, h http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, n.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", session)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := n.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

func TestTheReplicaOfTheSessionServesIt(t *testing.T) {
	c := cluster{}
	one, other := c.start(t, "one", [32]byte{1}), c.start(t, "other", [32]byte{1})
	session := other.session()
	for _, method := range []string{"POST", "GET", "DELETE"} {
		status, reply, h := one.send(t, method, session, "hello", "X-Forwarded-For", "203.0.113.9")
		if status != 200 || reply != "from other" {
			t.Errorf("%s at the first replica = %d %q, want a reply of the other", method, status, reply)
		}
		if len(h.Values("Vary")) != 1 || h.Get("Mcp-Session-Id") != session {
			t.Errorf("headers of the reply = %v, want each once", h)
		}
	}
	if want := "POST " + session + " 127.0.0.1 hello"; len(other.got) != 3 || other.got[0] != want || len(one.got) != 0 {
		t.Errorf("the other replica got %q, the first %q, want %q first", other.got, one.got, want)
	}
	for name, session := range map[string]string{"own": one.session(), "nobody's": "x", "none": "", "of a replica that is gone": "third.abc"} {
		if _, reply, _ := one.send(t, "POST", session, ""); reply != "from one" {
			t.Errorf("a request with %s session = %q, want it served here", name, reply)
		}
	}
}

func TestARequestIsPassedOnOnce(t *testing.T) {
	c := cluster{}
	one, other := c.start(t, "one", [32]byte{1}), c.start(t, "other", [32]byte{1})
	// The table says that a third replica is where the other one is, and that one passes
	// on what it gets for it, unless it knows better.
	c["third"] = other.URL
	if status, reply, _ := one.send(t, "POST", "third.abc", ""); status != 200 || reply != "from other" || len(other.got) != 1 || len(one.got) != 0 {
		t.Errorf("a request for a replica whose address another one has = %d %q, want it served there", status, reply)
	}
}

// Each replica passes the request on to the same one, which gets the whole of it.
func TestTheNextReplicaTakesTheSessionOver(t *testing.T) {
	c := cluster{}
	var all []*node
	for _, id := range []string{"a", "b", "c", "d"} {
		all = append(all, c.start(t, id, [32]byte{1}))
	}
	body := strings.Repeat("hello ", 1<<12)
	for ended, want := range []string{"a", "b", "c", "d"} {
		for _, at := range all[ended:] {
			at.relay.Close() // connections that the end of a replica may be about to break
			if status, reply, _ := at.send(t, "POST", all[0].session(), body); status != 200 || reply != "from "+want {
				t.Errorf("with %d replicas ended, at %s = %d %q, want it served by %s", ended, at.id, status, reply, want)
			}
		}
		if got := all[ended].got; len(got) != len(all)-ended || !strings.HasSuffix(got[len(got)-1], body) {
			t.Errorf("%s got %d requests, want %d, each whole", want, len(got), len(all)-ended)
		}
		all[ended].Close()
	}
}

// Nobody but a replica can say where a request comes from.
func TestMarksCannotBeForged(t *testing.T) {
	c := cluster{}
	one := c.start(t, "one", [32]byte{1})
	stranger := c.start(t, "stranger", [32]byte{2})
	rotating := c.start(t, "rotating", [32]byte{2}, [32]byte{1})
	session := one.session()
	for name, mark := range map[string]string{
		"empty": "", "rubbish": "x", "unsigned": "one 10.1.2.3 " + fmt.Sprint(time.Now().Unix()) + " ", "signed by nobody": "one 10.1.2.3 " + fmt.Sprint(time.Now().Unix()) + " AAAA",
	} {
		if status, _, _ := one.send(t, "POST", session, "", "Kairos-Passed-On", mark); status != 403 {
			t.Errorf("a request with a mark that is %s = %d, want 403", name, status)
		}
	}
	if status, _, _ := stranger.send(t, "POST", session, ""); status != 403 {
		t.Errorf("passed on with another key = %d, want 403", status)
	}
	if len(one.got) != 0 {
		t.Errorf("the replica served %q", one.got)
	}
	// A replica with a new key still accepts the old one, and what it signs is accepted
	// once the key is known.
	if status, reply, _ := one.send(t, "POST", rotating.session(), ""); status != 200 || reply != "from rotating" {
		t.Errorf("passed on to a replica with a further key = %d %q", status, reply)
	}
}

// A mark belongs to one session: it does not vouch for another request.
func TestAMarkIsOfItsRequest(t *testing.T) {
	c := cluster{}
	one := c.start(t, "one", [32]byte{1})
	var mark string
	spy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { mark = r.Header.Get("Kairos-Passed-On") }))
	defer spy.Close()
	c["two"] = spy.URL
	one.send(t, "POST", "two.abc", "")
	if mark == "" || strings.Contains(mark, "abc") {
		t.Fatalf("the mark is %q", mark)
	}
	two := c.start(t, "two", [32]byte{1})
	for session, want := range map[string]int{"two.abc": 200, "two.abd": 403} {
		if status, _, _ := two.send(t, "POST", session, "", "Kairos-Passed-On", mark); status != want {
			t.Errorf("the mark with session %s = %d, want %d", session, status, want)
		}
	}
	if status, _, _ := two.send(t, "DELETE", "two.abc", "", "Kairos-Passed-On", mark); status != 403 {
		t.Errorf("the mark with another method = %d, want 403", status)
	}
}

func TestStreamsArePassedOnAtOnce(t *testing.T) {
	c := cluster{}
	one := c.start(t, "one", [32]byte{1})
	left := make(chan struct{})
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // the client has left
		close(left)
	}))
	defer source.Close()
	c["two"] = source.URL
	ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
	defer leave()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, one.URL+"/mcp", http.NoBody)
	req.Header.Set("Mcp-Session-Id", "two.abc")
	res, err := one.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); line != "data: 1\n" {
		t.Errorf("the stream begins with %q, %v", line, err)
	}
	leave()
	select {
	case <-left:
	case <-time.After(20 * time.Second):
		t.Error("the replica does not notice that the client has left")
	}
}
