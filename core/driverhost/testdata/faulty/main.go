// Command faulty is a challenge driver that goes wrong on purpose. The file that
// FAULT_FILE names says how. It is read again for every start and every call, so
// that a test can break and repair the driver while it runs.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

const typeName = "faulty"

// fault is the word in the file and its number, if there is one.
func fault() (word string, n int) {
	b, _ := os.ReadFile(os.Getenv("FAULT_FILE"))
	word, rest, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	n, _ = strconv.Atoi(rest)
	return word, n
}

func main() {
	if os.Getenv("KAIROS_DRIVER_COOKIE") != "" {
		breakStart()
	}
	driverrpc.Main(driver.Driver{
		Descriptor: driver.Descriptor{
			Name: typeName, Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{typeName}, Effect: driver.EffectPure,
		},
		Challenge: &faulty{},
	})
}

func breakStart() {
	switch word, _ := fault(); word {
	case "never-handshakes":
		time.Sleep(time.Hour) // an empty select is a deadlock to a program without cgo
	case "closes-stdout":
		_ = syscall.Close(1)
		time.Sleep(time.Hour) // an empty select is a deadlock to a program without cgo
	case "noise-first":
		fmt.Println("Loading plugins, please wait")
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot open /var/lib/faulty")
		os.Exit(7)
	case "floods-at-start":
		flood()
	}
}

type faulty struct{ calls atomic.Int64 }

// Configure takes anything.
func (*faulty) Configure(context.Context, json.RawMessage, bool) ([]driver.Diagnostic, error) {
	return nil, nil
}

// CheckHealth fails while the fault says so.
func (*faulty) CheckHealth(context.Context) error {
	if word, _ := fault(); word == "unhealthy" {
		return fmt.Errorf("the database is away")
	}
	return nil
}

// Validate takes any challenge.
func (*faulty) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{}, nil
}

// Advance asks for evidence and accepts whatever comes, unless a fault is set.
func (f *faulty) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	answer, given := req.Answer("evidence")
	if !given {
		return driver.Need(driver.Input{ID: "evidence", Kind: driver.KindEvidence, Type: typeName, Description: "Say anything."}), nil
	}
	if res, err := f.goWrong(ctx); err != nil || res != nil {
		return orNothing(res), err
	}
	return driver.Accept(json.RawMessage(`{"faulty":false}`), answer.Value), nil
}

func orNothing(res *driver.AdvanceResult) driver.AdvanceResult {
	if res == nil {
		return driver.AdvanceResult{}
	}
	return *res
}

// goWrong does what the fault says; nil when there is none, or it has passed.
func (f *faulty) goWrong(ctx context.Context) (*driver.AdvanceResult, error) {
	word, n := fault()
	switch word {
	case "slow":
		<-ctx.Done()
		return nil, ctx.Err()
	case "crashes":
		if f.calls.Add(1) >= int64(n) {
			os.Exit(3)
		}
	case "panics":
		panic("index out of range, on purpose")
	case "garbage":
		return &driver.AdvanceResult{Accepted: &driver.Accepted{Proof: json.RawMessage(`}{`)}}, nil
	case "no-outcome":
		return &driver.AdvanceResult{}, nil
	case "huge":
		huge := driver.Accept(json.RawMessage(`"`+strings.Repeat("x", 20<<20)+`"`), nil)
		return &huge, nil
	case "freezes":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-ctx.Done() // the signal may take its time
	case "hungry":
		took := make([]byte, 500<<20)
		for i := range took {
			took[i] = byte(i) // else the kernel gives no memory for it
		}
		<-ctx.Done()
		runtime.KeepAlive(took)
	case "hungry-child":
		child := exec.Command("/bin/sh", "-c", "x=$(head -c 400000000 /dev/zero | tr '\\0' x); sleep 100")
		if err := child.Run(); err != nil {
			return nil, err
		}
	case "grandchild":
		return nil, leave(1)
	case "fork-bomb":
		return nil, leave(100)
	case "floods":
		flood()
	}
	return nil, nil
}

// leave starts children that hold stderr and outlive the process, which ends.
func leave(children int) error {
	pids := make([]string, children)
	for i := range pids {
		child := exec.Command("/bin/sleep", "1000")
		child.Stderr = os.NewFile(2, "stderr")
		if err := child.Start(); err != nil {
			return err
		}
		pids[i] = strconv.Itoa(child.Process.Pid)
	}
	if err := os.WriteFile(os.Getenv("FAULT_FILE")+".pids", []byte(strings.Join(pids, "\n")), 0o600); err != nil {
		return err
	}
	os.Exit(4)
	return nil
}

// flood writes 2 MiB to stderr, half of it in one line, past whatever buffers
// os.Stderr.
func flood() {
	line := []byte(strings.Repeat("all work and no play ", 50) + "\n")
	for range (1 << 20) / len(line) {
		_, _ = syscall.Write(2, line)
	}
	_, _ = syscall.Write(2, []byte(strings.Repeat("\x1b[31m!", 1<<20/6)))
}
