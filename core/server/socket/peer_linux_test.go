package socket_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/kairos-mcp/kairos/core/server/socket"
)

// The folder keeps other users out; this is what happens where somebody opened it.
func TestProcessOfAnotherUserIsHungUpOn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: another user at the socket, because only the superuser can be somebody else")
	}
	dir := shortDir(t)
	socket := filepath.Join(dir, "1.sock")
	serve(t, socket)
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o755, socket: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(t, socket, 65534); got != "" {
		t.Errorf("user 65534 got %q, want nothing", got)
	}
	if got := ask(t, socket, 0); got == "" {
		t.Error("the owner got nothing")
	}
}

// A process that a driver starts descends from the server, and is refused.
func TestProcessesThatTheServerStartedAreRefused(t *testing.T) {
	socket := filepath.Join(shortDir(t), "1.sock")
	serve(t, socket)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string][]string{"child": {self}, "grandchild": {"/bin/sh", "-c", self + "; true"}} {
		caller := exec.Command(command[0], command[1:]...)
		caller.Env = append(os.Environ(), callerMode+"="+socket)
		said, err := caller.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		if got := strings.TrimSpace(string(said)); got == "<nil>" || !strings.Contains(got, "no KAIROS server answers") {
			t.Errorf("a %s of the server got the answer %q, want that it is hung up on", name, got)
		}
	}
}

// The other servers of the user refuse a process that a server started: it may be a driver.
// The server itself is not.
func TestProcessesThatAnotherServerStartedAreRefused(t *testing.T) {
	at := filepath.Join(shortDir(t), "2.sock")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(self)
	other.Env = append(os.Environ(), serverMode+"="+at)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(in.Close(), other.Wait()) })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "<nil>\n" {
		t.Fatalf("the other server says %q, %v", line, err)
	}
	c, err := socket.NewClient(at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := show(t.Context(), c); err != nil {
		t.Errorf("the operator got %v, want an answer", err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]bool{"kairos": true, "shell": false} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, program, 0o700); err != nil {
			t.Fatal(err)
		}
		parent := exec.Command(path)
		parent.Env = append(os.Environ(), parentMode+"="+at)
		said, err := parent.CombinedOutput()
		if got := string(said); err != nil || strings.Contains(got, "no KAIROS server answers") != refused {
			t.Errorf("a child of a program named %s got the answer %q, %v, want refused: %v", name, got, err, refused)
		}
	}
}

// ask connects as a user, which on Linux is a property of the thread.
func ask(t *testing.T, socket string, uid int) string {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine of the test
	unset := ^uintptr(0)
	become := func(uid int) {
		if _, _, failed := syscall.RawSyscall(syscall.SYS_SETRESUID, unset, uintptr(uid), unset); failed != 0 {
			t.Fatalf("become user %d: %v", uid, failed)
		}
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	become(uid)
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket})
	become(0)
	if err != nil {
		t.Fatalf("connect as user %d: %v", uid, err)
	}
	if _, err := syscall.Write(fd, []byte("POST /api/server_show HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")); err != nil {
		return ""
	}
	b := make([]byte, 1024)
	n, err := syscall.Read(fd, b)
	if err != nil || n <= 0 {
		return ""
	}
	return string(b[:n])
}
