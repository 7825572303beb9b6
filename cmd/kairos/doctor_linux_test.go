package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startWithout starts a command on a machine that lacks system calls: they are
// refused to the command and to everything that it starts.
func startWithout(cmd *exec.Cmd, calls ...uint32) error {
	const (
		load, equal, reply = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		allow, refuse      = 0x7fff0000, 0x00050000 // SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO
	)
	filter := []unix.SockFilter{{Code: load}} // the number of the call comes first
	for _, call := range calls {
		filter = append(filter, unix.SockFilter{Code: equal, K: call, Jf: 1}, unix.SockFilter{Code: reply, K: refuse | uint32(unix.ENOSYS)})
	}
	filter = append(filter, unix.SockFilter{Code: reply, K: allow})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with what was taken from it
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
		}
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	return <-started
}

func TestDoctorReportsADemandedIsolationThatTheMachineLacks(t *testing.T) {
	t.Parallel()
	mount, landlock := uint32(unix.SYS_MOUNT), uint32(unix.SYS_LANDLOCK_CREATE_RULESET)
	for name, tc := range map[string]struct {
		demand string
		lacks  []uint32
		status int
		want   []string
	}{
		"a namespace": {"namespace", []uint32{mount}, 1, []string{
			"BAD  driver isolation", `drivers.isolation demands "namespace", which this machine does not offer`, "-> let this account make user namespaces",
		}},
		"Landlock": {"landlock", []uint32{landlock}, 1, []string{
			"BAD  driver isolation", `drivers.isolation demands "landlock", which this machine does not offer`, "-> use Linux 5.13 or later",
		}},
		"everything, and nothing is demanded": {"auto", []uint32{mount, landlock}, 0, []string{
			"ok   driver isolation none: drivers can read and change whatever this user may: ", "warning: drivers are not isolated", "-> install only drivers that you trust",
		}},
		"everything, and none is wanted": {"none", []uint32{mount, landlock}, 0, []string{"ok   driver isolation none: "}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kairos.yaml")
			text := "database: data/kairos.db\nadmin: {socket: off}\nlog: {level: error}\ndrivers: {dir: " + buildDrivers(t) + ", isolation: " + tc.demand + "}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			cmd := exec.Command(os.Args[0])
			cmd.Args = []string{"kairos", "doctor", "--config", file}
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := startWithout(cmd, tc.lacks...); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != tc.status {
				t.Errorf("doctor ended with status %d, want %d", got, tc.status)
			}
			said := strings.Join(strings.Fields(out.String()), " ")
			for _, want := range tc.want {
				if !strings.Contains(said, strings.Join(strings.Fields(want), " ")) {
					t.Errorf("it did not say %q:\n%s", want, out.String())
				}
			}
			if tc.demand == "none" && strings.Contains(said, "warning: drivers are not isolated") {
				t.Errorf("it warns of what is wanted:\n%s", out.String())
			}
		})
	}
}
