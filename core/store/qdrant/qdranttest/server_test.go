package qdranttest_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
)

// childTask makes the test binary a process that starts a server and waits.
const childTask = "KAIROS_TEST_CHILD"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dials(address string) bool {
	c, err := net.Dial("tcp", address)
	return err == nil && c.Close() == nil
}

func TestOneServerServesTheWholeBinary(t *testing.T) {
	first, second := qdranttest.Start(t), qdranttest.Start(t)
	if first != second {
		t.Errorf("Start = %s, then %s, want one server", first, second)
	}
	if !dials(first) {
		t.Errorf("nothing listens on %s after Start", first)
	}
}

func TestAServerComesBackOnItsPorts(t *testing.T) {
	s := qdranttest.New(t, qdranttest.Options{})
	address := s.Address()
	s.Kill(t)
	if dials(address) {
		t.Errorf("the server still listens on %s after Kill", address)
	}
	s.Restart(t)
	if s.Address() != address || !dials(address) {
		t.Errorf("after Restart nothing listens on %s", address)
	}
}

// TestHelperStartsAServer is only a helper: TestTheServerEndsWithAKilledTestBinary runs it.
func TestHelperStartsAServer(t *testing.T) {
	if os.Getenv(childTask) == "" {
		t.Skip("only as a child process")
	}
	fmt.Println("address", qdranttest.Start(t))
	time.Sleep(time.Hour)
}

func TestTheServerEndsWithAKilledTestBinary(t *testing.T) {
	if os.Getenv("KAIROS_TEST_QDRANT") != "" {
		t.Skip("KAIROS_TEST_QDRANT names a server that does not end with this binary")
	}
	qdranttest.Start(t) // skips where there is no server
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestHelperStartsAServer$")
	cmd.Env = append(os.Environ(), childTask+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var address string
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "address %s", &address)
	}
	if !dials(address) {
		t.Errorf("nothing listens on %q before the kill", address)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	for dials(address) {
		if ctx.Err() != nil {
			t.Fatalf("the server on %s outlives its killed test binary", address)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
