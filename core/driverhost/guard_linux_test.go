package driverhost_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/e2e/programs"
)

// probeState is what the probe sees of itself.
type probeState struct {
	Env            []string
	UID            int
	Status, Limits string
	Interfaces     int
}

func stateOf(t testing.TB, e *driverhost.Exec) probeState {
	t.Helper()
	got, err := e.Run(t.Context(), "Advance", order("state"))
	if err != nil {
		t.Fatal(err)
	}
	var s probeState
	if err := json.Unmarshal([]byte(got), &s); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	return s
}

func procFile(t *testing.T, pid int, name string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	check(t, err)
	return string(b)
}

var (
	noNewPrivs = regexp.MustCompile(`(?m)^NoNewPrivs:\s+1$`)
	limits     = map[string]*regexp.Regexp{
		"open files": regexp.MustCompile(`(?m)^Max open files +256 +256 `),
		"core dumps": regexp.MustCompile(`(?m)^Max core file size +0 +0 `),
		"file size":  regexp.MustCompile(`(?m)^Max file size +67108864 +67108864 `),
	}
)

func TestDriversCannotGainPrivilegesNorLimits(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	pid := pidOf(t, h, "alpha")
	if got := procFile(t, pid, "status"); !noNewPrivs.MatchString(got) {
		t.Errorf("the driver may gain privileges: %s", got)
	}
	for name, limit := range limits {
		if got := procFile(t, pid, "limits"); !limit.MatchString(got) {
			t.Errorf("%s are not limited: %s", name, got)
		}
	}
}

func TestExecDriversAreIsolatedToo(t *testing.T) {
	e := newExec(t, "", driverhost.ExecSetup{MemoryMiB: 100}, io.Discard)
	if words := e.Protection(); words != nil {
		t.Errorf("before the first call Protection is %q", words)
	}
	got := stateOf(t, e)
	if !noNewPrivs.MatchString(got.Status) {
		t.Errorf("the driver may gain privileges: %s", got.Status)
	}
	words := strings.Join(e.Protection(), "\n")
	for _, want := range []string{
		"no new privileges", "256 open files", "no core dumps", "files up to 64 MiB", "100 MiB", "network: allowed",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not among the words of protection:\n%s", want, words)
		}
	}
}

func TestOnlyTheStartersThreadGivesPrivilegesUp(t *testing.T) {
	tid, end := driverhost.StarterThread()
	defer end()
	own := fmt.Sprintf("/proc/self/task/%d/status", tid)
	if b, err := os.ReadFile(own); err != nil || !noNewPrivs.Match(b) {
		t.Errorf("the starter's thread has not given up privileges: %s, %v", b, err)
	}
	// Threads of starters that were closed may take a moment to end.
	eventually(t, "no other thread has given up privileges", func() bool {
		threads, err := filepath.Glob("/proc/self/task/*/status")
		check(t, err)
		return !slices.ContainsFunc(threads, func(path string) bool {
			b, err := os.ReadFile(path)
			return err == nil && path != own && noNewPrivs.Match(b)
		})
	})
}

// listener takes connections on the loopback device and drops them.
func listener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestNetworkIsDeniedByWhateverTheKernelOffers(t *testing.T) {
	for name, tc := range map[string]struct {
		setup   driverhost.ExecSetup
		reached bool
		words   string
	}{
		"allowed":            {driverhost.ExecSetup{}, true, "network: allowed"},
		"denied":             {driverhost.ExecSetup{Offline: true}, false, "denied by"},
		"denied by Landlock": {driverhost.ExecSetup{Offline: true, Isolation: "Landlock"}, false, "TCP denied by Landlock"},
		"no way to deny it":  {driverhost.ExecSetup{Offline: true, Isolation: "nothing"}, true, "network: NOT restricted"},
	} {
		t.Run(name, func(t *testing.T) {
			address, log := listener(t), &programs.Output{}
			e := newExec(t, "", tc.setup, log)
			got, err := e.Run(t.Context(), "Advance", order("dial", "text", address))
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Join(e.Protection(), "\n")
			if strings.Contains(words, "NOT restricted") && tc.setup.Isolation != "nothing" {
				t.Skipf("the kernel offers no isolation, so it is NOT tested: %s", words)
			}
			if reached := strings.TrimSpace(got) == `"reached"`; reached != tc.reached {
				t.Errorf("the driver says %s, reached should be %t", got, tc.reached)
			}
			if !strings.Contains(words, tc.words) {
				t.Errorf("Protection = %q, want %q", words, tc.words)
			}
			if warned := strings.Contains(log.String(), "is to have no network, but"); warned != (tc.setup.Isolation == "nothing") {
				t.Errorf("the log says %s", log)
			}
			if s := stateOf(t, e); !noNewPrivs.MatchString(s.Status) || s.UID != os.Getuid() {
				t.Errorf("user %d, status %s", s.UID, s.Status)
			}
		})
	}
}

func TestAnOperatorKeepsADriverFromTheNetwork(t *testing.T) {
	for name, tc := range map[string]struct {
		may     driverhost.May
		reached bool
		words   string
	}{
		"by default": {nil, true, "network: allowed"},
		"listed":     {driverhost.May{driverhost.MayUseNetwork}, true, "network: allowed"},
		"not listed": {driverhost.May{driverhost.MayObserve}, false, "denied by"},
	} {
		t.Run(name, func(t *testing.T) {
			const grace = 300 * time.Millisecond
			h := newHost(t, driverhost.Config{
				Stop: grace, Drivers: map[string]driverhost.DriverConfig{"alpha": {May: tc.may}},
			}, io.Discard)
			got := mustObey(t, h, "alpha", "dial", "text", listener(t))
			status, _ := h.StatusOf("alpha")
			words := strings.Join(status.Protection, "\n")
			if strings.Contains(words, "NOT restricted") {
				t.Skipf("the kernel offers no isolation, so it is NOT tested: %s", words)
			}
			if reached := got == `"reached"`; reached != tc.reached || !strings.Contains(words, tc.words) {
				t.Errorf("the driver says %s, protection is %q", got, words)
			}
			// It can still be ended, with its children, and says what it wants to.
			child, err := strconv.Atoi(mustObey(t, h, "alpha", "grandchild"))
			check(t, err)
			pid := pidOf(t, h, "alpha")
			check(t, h.Close())
			eventually(t, "driver and grandchild are gone", func() bool { return gone(pid) && gone(child) })
		})
	}
}

// cgroupTree makes a tree of files that looks like cgroups of version 2.
func cgroupTree(t *testing.T, own string, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files["proc/self/mountinfo"] = "22 1 0:20 / /proc rw - proc proc rw\n" +
		"31 22 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	files["proc/self/cgroup"] = "0::" + own + "\n"
	for name, content := range files {
		path := filepath.Join(root, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return root
}

func TestCgroupsAreUsedOnlyIfDelegated(t *testing.T) {
	const service = "sys/fs/cgroup/system.slice/kairos.service/"
	group := func(dir, controllers, subtree, procs string) map[string]string {
		return map[string]string{
			dir + "cgroup.controllers": controllers, dir + "cgroup.subtree_control": subtree, dir + "cgroup.procs": procs,
		}
	}
	for name, tc := range map[string]struct {
		own         string
		files       map[string]string
		marked      []string
		base, leave string
		enable      bool
		want        string // in the error
	}{
		"delegated, alone in it": {
			own: "/system.slice/kairos.service", files: group(service, "cpu memory pids\n", "\n", "42\n"),
			marked: []string{"/sys/fs/cgroup/system.slice/kairos.service"},
			base:   "/sys/fs/cgroup/system.slice/kairos.service",
			leave:  "/sys/fs/cgroup/system.slice/kairos.service/kairos-host", enable: true,
		},
		"delegated, in a group of its own": {
			own: "/system.slice/kairos.service/server", files: group(service, "memory pids\n", "memory pids\n", ""),
			marked: []string{"/sys/fs/cgroup/system.slice/kairos.service"},
			base:   "/sys/fs/cgroup/system.slice/kairos.service",
		},
		"a container's own": {
			own: "/", files: group("sys/fs/cgroup/", "memory\n", "", "42\n"),
			base: "/sys/fs/cgroup", leave: "/sys/fs/cgroup/kairos-host", enable: true,
		},
		"others are in it": {
			own: "/", files: group("sys/fs/cgroup/", "memory\n", "", "1\n42\n"), want: "other processes",
		},
		"not delegated": {
			own: "/system.slice/kairos.service", files: group(service, "memory\n", "memory\n", "42\n"), want: "Delegate=yes",
		},
		"without the controller": {
			own: "/", files: group("sys/fs/cgroup/", "cpu\n", "", "42\n"), want: "no memory controller",
		},
		"not writable": {
			own: "/", files: map[string]string{"sys/fs/cgroup/cgroup.controllers": "memory\n"}, want: "not writable",
		},
		"outside of what is mounted": {
			own: "/../other", files: map[string]string{"sys/fs/cgroup/cgroup.controllers": "memory\n"}, want: "outside",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := cgroupTree(t, tc.own, tc.files)
			base, leave, enable, err := driverhost.GroupPlan(root, 42, tc.marked...)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("plan = %q, %v, want the error %q", base, err, tc.want)
				}
				return
			}
			if err != nil || base != tc.base || leave != tc.leave || enable != tc.enable {
				t.Errorf("plan = %q, %q, %t, %v, want %q, %q, %t", base, leave, enable, err, tc.base, tc.leave, tc.enable)
			}
		})
	}
}

func TestCgroupsOfVersionOneAreNotUsed(t *testing.T) {
	root := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(root, "proc/self"), 0o755))
	check(t, os.WriteFile(filepath.Join(root, "proc/self/mountinfo"), []byte("31 22 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"), 0o644))
	check(t, os.WriteFile(filepath.Join(root, "proc/self/cgroup"), []byte("4:memory:/x\n"), 0o644))
	if _, _, _, err := driverhost.GroupPlan(root, 42); err == nil || !strings.Contains(err.Error(), "not mounted") {
		t.Errorf("plan = %v", err)
	}
}

// A driver in the session of the server could type into its terminal for the person
// (TIOCSTI), also before anybody trusts it.
func TestADriverHasASessionOfItsOwn(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	pid := pidOf(t, h, "alpha")
	theirs, err := unix.Getsid(pid)
	ours, ownErr := unix.Getsid(0)
	if err != nil || ownErr != nil || theirs == ours {
		t.Errorf("the driver has session %d, %v, and the server %d, %v, want two", theirs, err, ours, ownErr)
	}
}
