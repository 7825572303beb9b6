package socket_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

// callerMode makes this test binary call the server at a socket, as a process
// that a driver starts would.
const callerMode = "KAIROS_TEST_SOCKET"

// parentMode makes this test binary start itself as a caller.
const parentMode = "KAIROS_TEST_PARENT"

// serverMode makes this test binary another server, until its input ends.
const serverMode = "KAIROS_TEST_SERVER"

func TestMain(m *testing.M) {
	if at := os.Getenv(serverMode); at != "" {
		s := newServer(at)
		fmt.Println(s.Listen())
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Close()
		return
	}
	if at := os.Getenv(parentMode); at != "" {
		caller := exec.Command(os.Args[0])
		caller.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, parentMode) }), callerMode+"="+at)
		said, err := caller.CombinedOutput()
		fmt.Printf("%s%v\n", said, err)
		return
	}
	if at := os.Getenv(callerMode); at != "" {
		c, err := socket.NewClient(at)
		if err == nil {
			_, err = show(context.Background(), c)
		}
		fmt.Println(err)
		return
	}
	goleak.VerifyTestMain(m)
}

func show(ctx context.Context, c socket.Client) (operations.Info, error) {
	return operations.ShowServer.Call(ctx, c, operations.NoRequest{})
}

// shortDir is a private folder whose path leaves room for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "kairos-socket-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "private")
}

// replies is a handler that says which process it is.
func replies() http.Handler {
	m := operations.Machine{Info: func() operations.Info { return operations.Info{PID: os.Getpid(), Version: "v9"} }}
	return operations.NewHandler(nil, m, func(operations.Operation) access.Caller { return access.Caller{} })
}

// newServer is a server that does not listen yet.
func newServer(at string) *socket.Server {
	return socket.NewServer(at, replies(), nil, slog.New(slog.DiscardHandler))
}

// serve listens on the socket until the test ends.
func serve(t *testing.T, at string) socket.Client {
	t.Helper()
	s := newServer(at)
	if err := s.Listen(); err != nil {
		t.Fatalf("Listen: %v", err)
	}
	c, err := socket.NewClient(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}
