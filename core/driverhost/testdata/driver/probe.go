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
	case "hang", "unread":
		if err := note(o.File); err != nil {
			return err
		}
		time.Sleep(time.Hour) // an empty select is a deadlock to a program without cgo
	case "wait":
		return wait(o.File, filepath.Dir(o.File))
	case "grandchild":
		return grandchild(o, false)
	case "escape":
		return grandchild(o, true)
	case "escape and wait":
		return orphan(o)
	case "escape unmarked":
		_ = os.Unsetenv("KAIROS_DRIVER_PROCESS")
		return grandchild(o, true)
	case "read":
		return look(o.File, os.O_RDONLY)
	case "change":
		return look(o.File, os.O_RDWR)
	case "create":
		return look(o.File, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	case "list":
		entries, err := os.ReadDir(o.File)
		if err != nil {
			return reply("refused: " + err.Error())
		}
		return reply(fmt.Sprint(entries))
	case "parent environment":
		return look(fmt.Sprintf("/proc/%d/environ", os.Getppid()), os.O_RDONLY)
	case "parent root":
		return look(fmt.Sprintf("/proc/%d/root%s", os.Getppid(), o.File), os.O_RDONLY)
	case "signal parent":
		if err := syscall.Kill(os.Getppid(), syscall.SIGURG); err != nil {
			return reply("refused: " + err.Error())
		}
		return reply(fmt.Sprintf("sent to %d", os.Getppid()))
	case "run":
		out, err := exec.Command("/bin/sh", "-c", o.Text).CombinedOutput()
		return reply(fmt.Sprintf("%s%v", out, err))
	case "uncover":
		return uncover(o.File)
	case "connect":
		conn, err := net.Dial("unix", o.File)
		if err != nil {
			return reply("refused: " + err.Error())
		}
		_ = conn.Close()
		return reply("connected")
	case "descriptors":
		return descriptors()
	case "write":
		return os.WriteFile(o.File, make([]byte, 65<<20), 0o600)
	}
	return fmt.Errorf("I cannot %q", o.Do)
}

func reply(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// look opens a file and says what is in it, or why it cannot. What is hidden
// has no content.
func look(file string, how int) error {
	f, err := os.OpenFile(file, how, 0o600)
	if err != nil {
		return reply("refused: " + err.Error())
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return reply("refused: " + err.Error())
	}
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeDevice != 0 && len(b) == 0 {
		return reply("refused: it is an empty device")
	}
	return reply("opened: " + string(b))
}

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
