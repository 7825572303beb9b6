package driverrpc_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// driverMode makes this test binary a driver: "sound", "unsound", "judge",
// "processors" or "bare".
const driverMode = "KAIROS_TEST_DRIVER"

func TestMain(m *testing.M) {
	switch os.Getenv(driverMode) {
	case "sound":
		driverrpc.Main(driver.Driver{Descriptor: challengeDescriptor(), Challenge: &recorder{}})
	case "judge":
		driverrpc.Main(driver.Driver{Descriptor: judgeDescriptor(), Challenge: &judge{}})
	case "processors":
		driverrpc.Main(driver.Driver{Descriptor: challengeDescriptor(), Challenge: &processors{}})
	case "bare":
		serveBare()
	case "unsound":
		driverrpc.Main(driver.Driver{Descriptor: challengeDescriptor()})
	default:
		goleak.VerifyTestMain(m)
	}
}

func driverCommand(t *testing.T, mode string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append([]string{driverMode + "=" + mode}, env...)
	return cmd
}

func TestDescribePrintsTheDescriptor(t *testing.T) {
	out, err := driverCommand(t, "sound", nil, driverrpc.DescribeFlag).Output()
	if err != nil {
		t.Fatalf("--describe: %v", err)
	}
	var got driver.Descriptor
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("--describe printed %q: %v", out, err)
	}
	want := challengeDescriptor()
	if diff := cmp.Diff(want.Handles, got.Handles); diff != "" || got.Name != want.Name {
		t.Errorf("--describe printed %s", out)
	}
}

func TestDriverRunByHandExplainsItselfAndFails(t *testing.T) {
	for mode, want := range map[string]string{
		"sound": `the KAIROS challenge driver "recorder"`, "unsound": "not a sound driver",
	} {
		t.Run(mode, func(t *testing.T) {
			cmd := driverCommand(t, mode, nil)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("it ended with %v, want exit status 1", err)
			}
			if !strings.Contains(string(out), want) {
				t.Errorf("it printed %q, want something with %q", out, want)
			}
		})
	}
}

func TestDriverEndsWithItsLifelineAndTakesTheSocketAlong(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "k") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sockets := filepath.Join(dir, "s")
	if err := os.Mkdir(sockets, 0o700); err != nil {
		t.Fatal(err)
	}
	handshake := driverrpc.Handshake()
	cmd := driverCommand(t, "sound", []string{
		handshake.MagicCookieKey + "=" + handshake.MagicCookieValue, "PLUGIN_UNIX_SOCKET_DIR=" + sockets,
		"PLUGIN_PROTOCOL_VERSIONS=1",
	})
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "1|1|unix|"+sockets) {
		t.Errorf("handshake %q, %v", line, err)
	}
	if _, err := io.WriteString(lifeline, "text on the lifeline means nothing\n"); err != nil {
		t.Error(err)
	}
	if err := lifeline.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the driver ended with %v, want exit status 0", err)
	}
	if _, err := os.Stat(sockets); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket folder: %v, want it gone", err)
	}
}
