//go:build linux

package faults_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/e2e/play"
)

// cable is a network between this machine and a host behind it, which a namespace
// plays. It can swallow packets.
type cable struct {
	t         *testing.T
	namespace string
	near, far string // names of its ends
}

// Addresses of the ends. Two processes that test at once use different ones.
var (
	network     = fmt.Sprintf("10.213.%d.", os.Getpid()%250)
	nearAddress = network + "1"
	farAddress  = network + "2"
)

func lay(t *testing.T) *cable {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("A NETWORK THAT FAILS IS NOT TESTED: only root can make one")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("A NETWORK THAT FAILS IS NOT TESTED: install the package iproute2")
	}
	id := os.Getpid()
	c := &cable{t, fmt.Sprintf("kairos-faults-%d", id), fmt.Sprintf("kn%d", id), fmt.Sprintf("kf%d", id)}
	if out, err := exec.Command("ip", "netns", "add", c.namespace).CombinedOutput(); err != nil {
		t.Skipf("A NETWORK THAT FAILS IS NOT TESTED: no network namespace can be made: %s", out)
	}
	t.Cleanup(func() { c.ip("netns del " + c.namespace) })
	c.ip("link add " + c.near + " type veth peer name " + c.far + " netns " + c.namespace)
	t.Cleanup(func() { c.ip("link del " + c.near) })
	c.ip("addr add " + nearAddress + "/30 dev " + c.near)
	c.ip("link set " + c.near + " up")
	c.ip("-n " + c.namespace + " addr add " + farAddress + "/30 dev " + c.far)
	c.ip("-n " + c.namespace + " link set " + c.far + " up")
	return c
}

func (c *cable) ip(arguments string) {
	c.t.Helper()
	if out, err := exec.Command("ip", strings.Fields(arguments)...).CombinedOutput(); err != nil {
		c.t.Errorf("ip %s: %v: %s", arguments, err, out)
	}
}

// cut makes both ends send to an interface that does not exist: packets disappear
// without any error.
func (c *cable) cut() {
	c.t.Helper()
	c.ip("neigh replace " + farAddress + " lladdr 02:00:00:00:00:01 nud permanent dev " + c.near)
	c.ip("-n " + c.namespace + " neigh replace " + nearAddress + " lladdr 02:00:00:00:00:02 nud permanent dev " + c.far)
}

func (c *cable) repair() {
	c.t.Helper()
	c.ip("neigh del " + farAddress + " dev " + c.near)
	c.ip("-n " + c.namespace + " neigh del " + nearAddress + " dev " + c.far)
}

// forward makes the far host accept connections for a server of this machine, and
// returns the port.
func (c *cable) forward(to string) int {
	c.t.Helper()
	listening := make(chan net.Listener, 1)
	go func() {
		runtime.LockOSThread() // the thread enters the namespace and ends with the goroutine
		defer close(listening)
		namespace, err := os.Open("/run/netns/" + c.namespace)
		if err != nil {
			c.t.Error(err)
			return
		}
		defer namespace.Close()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			c.t.Error(err)
			return
		}
		l, err := net.Listen("tcp", farAddress+":0")
		if err != nil {
			c.t.Error(err)
			return
		}
		listening <- l
	}()
	l := <-listening
	if l == nil {
		c.t.FailNow()
	}
	c.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go join(from, to)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// join copies between a connection and a server until one side ends.
func join(from net.Conn, to string) {
	defer from.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, from)
		server.Close()
	}()
	_, _ = io.Copy(from, server)
}

// bounded is how long a call may take whose server cannot reach the database: 30 seconds,
// and what a busy machine takes.
const bounded = 35 * time.Second

// A server that cannot reach its database says so in time, also in the calls that were
// waiting for an answer, and continues when it can.
func TestANetworkThatIsCut(t *testing.T) {
	onlyInSoak(t)
	c := lay(t)
	server := postgrestest.Start(t)
	if !server.Owned() {
		t.Skip("A NETWORK THAT FAILS IS NOT TESTED: the programs of PostgreSQL are not on this machine")
	}
	address, err := url.Parse(server.OverTCP(server.Database(t), postgrestest.Password))
	if err != nil {
		t.Fatal(err)
	}
	address.Host = fmt.Sprintf("%s:%d", farAddress, c.forward(address.Host))
	s := play.NewServerOn(t, bin, address.String())
	g := begin(t, s, s.Prepare(), 6)
	for range rounds(1, 3) {
		g.awaitRuns(6)
		waiting := make(chan time.Duration, 8)
		var called sync.WaitGroup
		for range cap(waiting) {
			called.Add(1)
			go func() { waiting <- untilRefused(s, g.uri, sync.OnceFunc(called.Done)) }()
		}
		called.Wait()
		c.cut()
		cut := time.Now()
		reply := rest(t, s, "kairos_begin", map[string]any{"uri": g.uri, "input": map[string]any{"who": "nobody"}})
		if took := time.Since(cut); reply["error_code"] != "STORE_UNAVAILABLE" || took > bounded {
			t.Errorf("kairos_begin without a network = %v after %v, want STORE_UNAVAILABLE within %v", reply, took, bounded)
		}
		for time.Since(cut) < bounded+10*time.Second && len(waiting) < cap(waiting) {
			time.Sleep(100 * time.Millisecond) // polling with a deadline
		}
		if ended := len(waiting); ended < cap(waiting) {
			t.Errorf("%d of %d calls still wait", cap(waiting)-ended, cap(waiting))
		}
		for range len(waiting) {
			if took := <-waiting; took > bounded {
				t.Errorf("a call that waited for the database when the network was cut took %v, want at most %v", took, bounded)
			}
		}
		c.repair()
		g.awaitRuns(6)
	}
	g.finish()
	g.ledger.Check(t, s)
}

// untilRefused begins runs until that fails, and returns how long the last call took. It
// has no limit of its own. It calls done after each call.
func untilRefused(s *play.Server, uri string, done func()) time.Duration {
	for {
		began := time.Now()
		res, err := http.Post("http://"+s.Address+"/api/kairos_begin", "application/json", strings.NewReader(`{"uri":"`+uri+`","input":{"who":"nobody"}}`))
		done()
		if err != nil {
			return time.Since(began)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return time.Since(began)
		}
	}
}
