package mcpclient

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// process is a server that was started here.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.Reader
	stderr tail
	ended  chan struct{}
}

// Passed are the variables of KAIROS's environment that every server gets.
func Passed() []string { return []string{"HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ"} }

func start(s Server, o Options) (*process, error) {
	cmd := exec.CommandContext(context.Background(), s.Command, s.Args...) // it outlives the call that needed it first
	cmd.Env = o.environ()
	for key, value := range s.Env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	for key, from := range s.EnvFrom {
		value, ok := os.LookupEnv(from)
		if !ok {
			return nil, fmt.Errorf("env_from: the variable %s is not set where KAIROS runs", from)
		}
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	cmd.Dir = s.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = time.Second
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = &p.stderr
	if o.Stderr != nil {
		cmd.Stderr = io.MultiWriter(&p.stderr, o.Stderr)
	}
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// A pipe of our own: Wait closes the one of StdoutPipe while it is still read.
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, p.out = write, read
	err = cmd.Start()
	_ = write.Close() // the server has it
	if err != nil {
		_ = read.Close()
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // how it exited is its own affair
	}()
	return p, nil
}

func (o Options) environ() []string {
	if o.Environ != nil {
		return slices.Clone(o.Environ)
	}
	env := []string{}
	for _, key := range Passed() {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	return env
}

// grace is how long a server may take to end once its input is closed.
const grace = 2 * time.Second

// stop ends the server and what it started, at the latest after the grace.
func (p *process) stop(grace time.Duration) {
	_ = p.in.Close()
	select {
	case <-p.ended:
	case <-time.After(grace):
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // nothing of it may stay
	<-p.ended
	if c, ok := p.out.(io.Closer); ok {
		_ = c.Close()
	}
}

// said is the end of what the server wrote to its standard error, and how it ended.
func (p *process) said() (written string, code int, ended bool) {
	select {
	case <-p.ended:
		code, ended = p.cmd.ProcessState.ExitCode(), true
	case <-time.After(100 * time.Millisecond): // its last words may be on their way
	}
	return plain.LineWithin(p.stderr.String(), maxSaid), code, ended
}

// tail keeps the last bytes that are written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const maxTail = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if len(t.kept) > maxTail {
		t.kept = bytes.Clone(t.kept[len(t.kept)-maxTail:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
