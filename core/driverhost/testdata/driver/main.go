// Command driver is a real small driver for the tests of package driverhost, and under
// another name a process of the exec transport (probe.go).
// Its name is that of its file, what a call does stands in the challenge, and
// what goes wrong at its start stands in KAIROS_TEST_START, or in the file
// that KAIROS_TEST_START_FILE names.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

func main() {
	name, driving := strings.CutPrefix(filepath.Base(os.Args[0]), "kairos-driver-")
	if !driving {
		probe()
		return
	}
	start := os.Getenv("KAIROS_TEST_START")
	if file := os.Getenv("KAIROS_TEST_START_FILE"); file != "" {
		b, _ := os.ReadFile(file)
		start = string(b)
	}
	switch start {
	case "silent":
		time.Sleep(time.Hour) // an empty select is a deadlock to a program without cgo
	case "gibberish":
		fmt.Println("what is a handshake")
		time.Sleep(time.Hour) // an empty select is a deadlock to a program without cgo
	case "other plugin":
		fmt.Println("1|1|unix|/tmp/plugin1|netrpc|")
		time.Sleep(time.Hour)
	case "newer plugin":
		fmt.Println("7|1|unix|/tmp/plugin1|grpc|")
		time.Sleep(time.Hour)
	case "newer driver":
		fmt.Println("1|9|unix|/tmp/plugin1|grpc|")
		time.Sleep(time.Hour)
	case "nowhere":
		fmt.Println("1|1|carrier pigeon|/tmp/plugin1|grpc|")
		time.Sleep(time.Hour)
	case "done":
		os.Exit(0)
	case "mute":
		_ = syscall.Close(1)
		time.Sleep(time.Hour)
	case "flood":
		flood()
	case "exit":
		fmt.Fprintln(os.Stderr, "my disk is \x1b[31mfull")
		os.Exit(3)
	}
	d := driver.Driver{Descriptor: driver.Descriptor{
		Name: name, Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{name}, Effect: driver.EffectReads,
		ConfigSchema: json.RawMessage(`{"type": "object"}`),
	}}
	switch name {
	case "pure":
		d.Descriptor.Effect = driver.EffectPure
	case "changer":
		d.Descriptor.Effect = driver.EffectChanges
	case "capable":
		d.Descriptor.Role = driver.RoleCapability
	case "otherwise":
		// Described in one way where the lock is made, in another to the host.
		if os.Getenv("KAIROS_DRIVER_COOKIE") != "" {
			d.Descriptor.Version = "2.0.0"
		}
	}
	impl := &puppet{}
	if d.Descriptor.Role == driver.RoleChallenge {
		d.Challenge = impl
	} else {
		d.Capability = impl
	}
	driverrpc.Main(d)
}

// puppet does what each challenge says.
type puppet struct {
	config  json.RawMessage
	counted int
}

type order struct {
	Do   string `json:"do"`
	File string `json:"file"`
	Text string `json:"text"`
}

func (p *puppet) Configure(_ context.Context, config json.RawMessage, _ bool) ([]driver.Diagnostic, error) {
	p.config = config
	if strings.Contains(string(config), "refuse") {
		return []driver.Diagnostic{driver.Problem("/refuse", "I do not like it")}, nil
	}
	if strings.Contains(string(config), "warn") {
		return []driver.Diagnostic{driver.Warning("/warn", "I am not fast")}, nil
	}
	return nil, nil
}

func (p *puppet) CheckHealth(context.Context) error {
	if strings.Contains(string(p.config), "sick") {
		return errors.New("I am sick")
	}
	return nil
}

func (p *puppet) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{}, nil
}

func (p *puppet) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	var o order
	if err := json.Unmarshal(req.Challenge, &o); err != nil {
		return driver.AdvanceResult{}, err
	}
	switch o.Do {
	case "reject":
		return driver.Reject(o.Text, "no"), nil
	case "garbage":
		return driver.AdvanceResult{Accepted: &driver.Accepted{Proof: json.RawMessage(`}{`)}}, nil
	case "nothing":
		return driver.AdvanceResult{}, nil
	case "huge":
		return driver.Accept(json.RawMessage(`"`+strings.Repeat("x", 20<<20)+`"`), nil), nil
	}
	value, err := p.obey(ctx, o)
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	proof, err := json.Marshal(value)
	return driver.Accept(proof, nil), err
}

func (p *puppet) obey(ctx context.Context, o order) (any, error) {
	switch o.Do {
	case "pid":
		return os.Getpid(), nil
	case "count":
		p.counted++ // which no pure driver does: it shows who was asked
		return p.counted, nil
	case "dial":
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", o.Text)
		if err != nil {
			return err.Error(), nil
		}
		return "reached", conn.Close()
	case "connect":
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", o.File)
		if err != nil {
			return "refused: " + err.Error(), nil
		}
		return "connected", conn.Close()
	case "list":
		entries, err := os.ReadDir(o.File)
		if err != nil {
			return "refused: " + err.Error(), nil
		}
		return fmt.Sprint(entries), nil
	case "read":
		return look(o.File, os.O_RDONLY), nil
	case "change":
		return look(o.File, os.O_RDWR), nil
	case "create":
		return look(o.File, os.O_RDWR|os.O_CREATE|os.O_EXCL), nil
	case "environment":
		return os.Environ(), nil
	case "config":
		return p.config, nil
	case "fail":
		return nil, errors.New(o.Text)
	case "panic":
		panic(o.Text)
	case "die":
		return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "exit":
		_, _ = syscall.Write(2, []byte(o.Text+"\n"))
		os.Exit(7)
	case "leave quietly":
		os.Exit(0)
	case "die once":
		return p.dieOnce(o.File)
	case "wait":
		if err := os.WriteFile(o.File, nil, 0o600); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	case "hold":
		// Returns when the other file is there, whatever the deadline.
		if err := os.WriteFile(o.File, nil, 0o600); err != nil {
			return nil, err
		}
		for {
			if _, err := os.Stat(o.Text); err == nil {
				return os.Getpid(), nil
			}
			time.Sleep(5 * time.Millisecond)
		}
	case "say":
		_, err := syscall.Write(2, []byte(o.Text)) // not os.Stderr, which go-plugin has replaced
		return "said", err
	case "print":
		fmt.Print(o.Text)
		return "printed", nil
	case "grandchild":
		return grandchild()
	case "leave":
		return leave(o.File)
	case "hungry":
		took := bytes.Repeat([]byte("x"), 500<<20)
		<-ctx.Done()
		return len(took), nil
	case "hungry child":
		return nil, exec.Command("/bin/sh", "-c", "(head -c 400000000 /dev/zero; sleep 100) | tail").Run() // which keeps a line without an end
	case "flood":
		flood()
		return "flooded", nil
	}
	return nil, fmt.Errorf("I cannot %q", o.Do)
}

// grandchild starts a process that holds stderr and outlives this one.
func grandchild() (pid int, err error) {
	child := exec.Command("/bin/sleep", "1000")
	child.Stderr = os.NewFile(2, "stderr")
	if err := child.Start(); err != nil {
		return 0, err
	}
	return child.Process.Pid, nil
}

// leave ends the process, but not its many children, whose numbers it writes to a file.
func leave(file string) (any, error) {
	pids := make([]string, 100)
	for i := range pids {
		pid, err := grandchild()
		if err != nil {
			return nil, err
		}
		pids[i] = fmt.Sprint(pid)
	}
	if err := os.WriteFile(file, []byte(strings.Join(pids, "\n")), 0o600); err != nil {
		return nil, err
	}
	os.Exit(4)
	return nil, nil
}

// flood writes 2 MiB to stderr, half of it in one line, past whatever buffers os.Stderr.
func flood() {
	_, _ = syscall.Write(2, bytes.Repeat([]byte("noise\n"), 1<<20/6))
	_, _ = syscall.Write(2, bytes.Repeat([]byte("\x1b[31m!"), 1<<20/6))
}

// look opens a file and says what is in it, or why it cannot. What is hidden has no
// content.
func look(file string, how int) string {
	f, err := os.OpenFile(file, how, 0o600)
	if err != nil {
		return "refused: " + err.Error()
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return "refused: " + err.Error()
	}
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeDevice != 0 && len(b) == 0 {
		return "refused: it is an empty device"
	}
	return "opened: " + string(b)
}

// dieOnce dies under the call unless a process before it has done so.
func (p *puppet) dieOnce(file string) (any, error) {
	marker, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.Getpid(), nil
	}
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(marker.Close(), syscall.Kill(os.Getpid(), syscall.SIGKILL))
}

func (p *puppet) Render(context.Context, driver.RenderRequest) (driver.RenderResult, error) {
	return driver.CannotRender("I only\tinterpret\n\x1b[31m and do not\u202e write backwards\x00"), nil
}

func (p *puppet) Interpret(ctx context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	var o order
	if json.Unmarshal(req.Raw, &o) != nil || o.Do == "" {
		return driver.Answered(req.Raw, driver.AgentReported), nil
	}
	value, err := p.obey(ctx, o)
	if err != nil {
		return driver.InterpretResult{}, err
	}
	answer, err := json.Marshal(value)
	return driver.Answered(answer, driver.AgentReported), err
}
