// Command probe is a driver on the exec transport for the tests of package
// driverhost: the request says what it does, good or bad.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

type order struct {
	Do   string `json:"do"`
	Text string `json:"text"`
	File string `json:"file"`
}

func main() {
	var o order
	if do := os.Getenv("KAIROS_TEST_DO"); do != "" { // without reading stdin
		o.Do = do
	} else if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		fail(err)
	}
	if err := obey(o); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "first line")
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func obey(o order) error {
	switch o.Do {
	case "state":
		return state()
	case "echo":
		return reply(o.Text)
	case "dial":
		conn, err := net.DialTimeout("tcp", o.Text, 5*time.Second)
		if err != nil {
			return reply(err.Error())
		}
		defer func() { _ = conn.Close() }()
		_, err = io.Copy(conn, strings.NewReader("hello\n"))
		if err != nil {
			return err
		}
		return reply("reached")
	case "fail":
		return fmt.Errorf("I cannot: %s", o.Text)
	case "die":
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "nothing":
		return nil
	case "garbage":
		_, err := os.Stdout.WriteString("{\"a\":1} and \x1b[31mmore")
		return err
	case "huge":
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
				return err
			}
		}
	case "flood":
		for range 50_000 {
			fmt.Fprintln(os.Stderr, "noise noise noise")
		}
		return reply("flooded")
	case "hang", "deaf":
		if err := note(o.File); err != nil {
			return err
		}
		time.Sleep(time.Hour) // an empty select is a deadlock to a program without cgo
	case "wait":
		return wait(o.File)
	case "grandchild":
		return grandchild(o, false)
	case "escape":
		return grandchild(o, true)
	case "write":
		return os.WriteFile(o.File, make([]byte, 65<<20), 0o600)
	}
	return fmt.Errorf("I cannot %q", o.Do)
}

func reply(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// note writes this process's number into a file that appears as a whole.
func note(file string) error {
	if file == "" {
		return nil
	}
	if err := os.WriteFile(file+".new", fmt.Append(nil, os.Getpid()), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// wait says that it is there and waits for the file "go" beside its own.
func wait(file string) error {
	if err := note(file); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), "go")); err == nil {
			return reply("went")
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// grandchild leaves a process behind that holds all three streams.
func grandchild(o order, leave bool) error {
	child := exec.Command("sleep", "1000")
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: leave}
	if err := child.Start(); err != nil {
		return err
	}
	return reply(child.Process.Pid)
}

// state is what a driver sees of what holds it down.
func state() error {
	out := map[string]any{"env": os.Environ(), "uid": os.Getuid()}
	for _, name := range []string{"status", "limits"} {
		b, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			return err
		}
		out[name] = string(b)
	}
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	out["interfaces"] = len(links)
	return reply(out)
}
