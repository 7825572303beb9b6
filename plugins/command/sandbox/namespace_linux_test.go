package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// inUserNamespace runs the test again as another account, in a user namespace that has
// only this account, as the host starts drivers, and reports whether this is that one.
func inUserNamespace(t *testing.T, uid int) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		if mapsRoot() {
			t.Skip("needs root, which can become other accounts")
		}
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: true}, //nolint:gosec // small
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as %d: %v\n%s", uid, err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("as %d: %s", uid, out)
	}
	return false
}

// A server without root's rights starts its drivers so.
func TestTheSandboxIsFoundWhereRootIsNotShown(t *testing.T) {
	for _, uid := range []int{1234, Nobody} {
		if !inUserNamespace(t, uid) {
			continue
		}
		dir := t.TempDir()
		res, err := Sandbox{}.Run(context.Background(), Command{Line: "echo ran >f; cat f", Files: dir, Workspace: "/srv/project"})
		if err != nil || res.Stdout.Text != "ran\n" {
			t.Errorf("Run = %+v, %v", res, err)
		}
		return
	}
}

func TestWhereRootIsNotShownOnlyTheSystemsProgramsAreTrusted(t *testing.T) {
	if !inUserNamespace(t, 1234) {
		return
	}
	if err := trusted("/usr/bin/prlimit", "/elsewhere"); err != nil {
		t.Errorf("a program of the system: %v", err)
	}
	own := filepath.Join(t.TempDir(), "bwrap")
	if err := os.WriteFile(own, nil, 0o555); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if !owns(own) || owns("/usr/bin/prlimit") {
		t.Error("it does not see which files are its own")
	}
	for _, path := range []string{own, "/etc/passwd", "/usr/local/bin"} {
		if err := trusted(path, "/elsewhere"); err == nil {
			t.Errorf("%s is trusted", path)
		}
	}
}

// The real bubblewrap, where the kernel allows no user namespace.
func TestAMachineThatForbidsNamespacesIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, which can forbid namespaces to a process")
	}
	const forbid = "KAIROS_TEST_FORBID"
	if os.Getenv(forbid) == "" {
		all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Dir, cmd.Env = "/", append(os.Environ(), forbid+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	if err := (Sandbox{}).Hand(dir); err != nil {
		t.Fatal(err)
	}
	_, err := Sandbox{}.Run(t.Context(), Command{Line: "true", Files: dir, Workspace: "/srv/project"})
	if start := (*StartError)(nil); !errors.As(err, &start) || !strings.Contains(err.Error(), "forbids user namespaces") {
		t.Errorf("Run = %v", err)
	}
}
