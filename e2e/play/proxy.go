package play

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// proxyArg turns this binary into a proxy in front of a server: a process that can be
// killed with all connections through it.
const proxyArg = "play-proxy"

// Proxy is a process between players and a server.
type Proxy struct {
	t        *testing.T
	from, to string
	cmd      *exec.Cmd
}

// StartProxy puts a proxy in front of the server.
func StartProxy(t *testing.T, s *Server) *Proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, from: l.Addr().String(), to: s.Address}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.Front = p.from
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// Start starts the proxy, also after Kill.
func (p *Proxy) Start() {
	self, err := os.Executable()
	if err != nil {
		p.t.Error(err)
		return
	}
	p.cmd = exec.CommandContext(p.t.Context(), self, proxyArg, p.from, p.to)
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		p.t.Error(err)
		p.cmd = nil
	}
}

// Kill kills the proxy.
func (p *Proxy) Kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// serveProxy passes connections on, byte by byte.
func serveProxy(from, to string) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", from)
	if err != nil {
		return err
	}
	for {
		in, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer in.Close() //nolint:errcheck // nothing is left to send
			out, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", to)
			if err != nil {
				return // the server does not run
			}
			defer out.Close() //nolint:errcheck // nothing is left to send
			ended := make(chan struct{}, 2)
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // until one of them ends
				ended <- struct{}{}
			}
			go pass(in, out)
			go pass(out, in)
			<-ended
		}()
	}
}
