package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// probe is a process of one call on the exec transport, which replies on stdout.
func probe() {
	if len(os.Args) == 2 && os.Args[1] == "orders" {
		probeAll()
		return
	}
	var o order
	if do := os.Getenv("KAIROS_TEST_DO"); do != "" { // without reading stdin
		o.Do = do
	} else if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		fail(err)
	}
	if err := probed(o); err != nil {
		fail(err)
	}
}

// probeAll obeys all orders on stdin, and puts a comma in front of each reply.
func probeAll() {
	for orders := json.NewDecoder(os.Stdin); orders.More(); {
		var o order
		err := orders.Decode(&o)
		if err == nil {
			fmt.Print(",")
			err = probed(o)
		}
		if err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "first line")
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func probed(o order) error {
	switch o.Do {
	case "state":
		return state()
	case "echo":
		return reply(o.Text)
	case "fail":
		return fmt.Errorf("I cannot: %s", o.Text)
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
	case "hang", "unread":
		if err := note(o.File); err != nil {
			return err
		}
		time.Sleep(time.Hour) // an empty select is a deadlock to a program without cgo
	case "wait":
		return wait(o.File, filepath.Dir(o.File))
	case "grandchild":
		return holder(false)
	case "escape":
		return holder(true)
	case "escape and wait":
		return orphan(o)
	case "escape unmarked":
		_ = os.Unsetenv("KAIROS_DRIVER_PROCESS")
		return holder(true)
	case "parent environment":
		return reply(look(fmt.Sprintf("/proc/%d/environ", os.Getppid()), os.O_RDONLY))
	case "parent root":
		return reply(look(fmt.Sprintf("/proc/%d/root%s", os.Getppid(), o.File), os.O_RDONLY))
	case "signal parent":
		if err := syscall.Kill(os.Getppid(), syscall.SIGURG); err != nil {
			return reply("refused: " + err.Error())
		}
		return reply(fmt.Sprintf("sent to %d", os.Getppid()))
	case "run":
		out, err := exec.Command("/bin/sh", "-c", o.Text).CombinedOutput()
		return reply(fmt.Sprintf("%s%v", out, err))
	case "uncover":
		return reply(uncover(o.File))
	case "descriptors":
		return descriptors()
	case "write":
		return os.WriteFile(o.File, make([]byte, 65<<20), 0o600)
	}
	value, err := (&puppet{}).obey(context.Background(), o)
	if err != nil {
		return err
	}
	return reply(value)
}

func reply(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// descriptors lists the open files of this process.
func descriptors() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	open := map[string]string{}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			open[e.Name()] = to
		}
	}
	return reply(open)
}

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

// wait says that it is there and waits for the file "go".
func wait(file, dir string) error {
	if err := note(file); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go")); err == nil {
			return reply("went")
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// holder leaves a process behind that holds all three streams.
func holder(leave bool) error {
	child := exec.Command("sleep", "1000")
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: leave}
	if err := child.Start(); err != nil {
		return err
	}
	return reply(child.Process.Pid)
}

// orphan starts a process whose parent ends at once, notes its number and waits.
func orphan(o order) error {
	cmd := exec.Command("/bin/sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $!")
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.File+".new", bytes.TrimSpace(out), 0o600); err != nil {
		return err
	}
	if err := os.Rename(o.File+".new", o.File); err != nil {
		return err
	}
	return wait("", filepath.Dir(o.File))
}

// state is what a driver sees of its isolation.
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
