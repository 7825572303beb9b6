package driverrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// called is what a process with CallFlag did.
type called struct {
	stdout, stderr string
	status         int
}

func callProcess(t *testing.T, env []string, method, request string) called {
	t.Helper()
	cmd := driverCommand(t, "judge", env, driverrpc.CallFlag, method)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(request), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %s: %v", driverrpc.CallFlag, method, err)
	}
	return called{stdout: stdout.String(), stderr: stderr.String(), status: cmd.ProcessState.ExitCode()}
}

// lastLine is what a host quotes of a failed process.
func (c called) lastLine() string {
	lines := strings.Split(strings.TrimSpace(c.stderr), "\n")
	return lines[len(lines)-1]
}

func TestAProcessPerCallIsADriver(t *testing.T) {
	client := driverrpc.NewExecClient(func(_ context.Context, method string, request []byte) ([]byte, error) {
		c := callProcess(t, []string{driverrpc.ConfigEnv + `={"word":"blue"}`}, method, string(request))
		if c.status != 0 {
			return nil, errors.New(c.lastLine())
		}
		return []byte(c.stdout), nil
	})
	d, err := client.Describe(t.Context())
	if err != nil || d.Name != "judge" || d.Transport != driver.TransportExec {
		t.Errorf("Describe = %+v, %v", d, err)
	}
	if found, err := client.Configure(t.Context(), json.RawMessage(`{"word":5}`), true); err != nil || len(found) != 2 {
		t.Errorf("Configure = %v, %v, want two findings", found, err)
	}
	if err := client.CheckHealth(t.Context()); err != nil {
		t.Errorf("CheckHealth: %v", err)
	}
	if _, err := client.Challenge().Validate(t.Context(), driver.ValidateRequest{Challenge: json.RawMessage(`{}`)}); err != nil {
		t.Errorf("Validate: %v", err)
	}
	got, err := client.Challenge().Advance(t.Context(), driver.AdvanceRequest{Challenge: json.RawMessage(`{"do":"print"}`)})
	if err != nil || got.Accepted == nil || !got.Accepted.Observed || !strings.Contains(string(got.Accepted.Proof), "blue") {
		t.Errorf("Advance = %+v, %v, want the configured word observed", got.Accepted, err)
	}
	if _, err := client.Capability().Render(t.Context(), driver.RenderRequest{}); err == nil ||
		!strings.Contains(err.Error(), "has the role challenge") {
		t.Errorf("Render error = %v, want one about the role", err)
	}
}

func TestFailedCallsExitWithTheReason(t *testing.T) {
	for name, tc := range map[string]struct{ config, method, request, want string }{
		"its own error":      {"", "Advance", `{"challenge":{"do":"fail"}}`, "Advance: disk on fire; and the house"},
		"a panic":            {"", "Advance", `{"challenge":{"do":"panic"}}`, "Advance: driver panicked in Advance: on purpose"},
		"unsound result":     {"", "Advance", `{"challenge":{"do":"nothing"}}`, "exactly one outcome"},
		"malformed code":     {"", "Advance", `{"challenge":{"do":"mumble"}}`, `error_code "not a code" does not match`},
		"no request":         {"", "Advance", ``, "the request: it is empty"},
		"broken request":     {"", "Advance", `{"challenge"`, "the request: it ends too early"},
		"wrong request":      {"", "Advance", `{"round":"one"}`, "the request: round is a string, want int"},
		"negative request":   {"", "Advance", `{"round":-1}`, "round is -1"},
		"two requests":       {"", "Validate", `{} {}`, "after top-level value"},
		"huge request":       {"", "Validate", strings.Repeat(" ", driverrpc.MaxMessageBytes+1), "larger than 16777216 bytes"},
		"refused config":     {`{"word":5}`, "Advance", `{}`, "KAIROS_DRIVER_CONFIG is refused: /word: must be text"},
		"config is not JSON": {`{`, "CheckHealth", `{}`, "KAIROS_DRIVER_CONFIG is not JSON"},
		"the other role":     {"", "Interpret", `{}`, "its methods are Describe, Configure, CheckHealth, Validate, Advance"},
	} {
		t.Run(name, func(t *testing.T) {
			c := callProcess(t, []string{driverrpc.ConfigEnv + "=" + tc.config}, tc.method, tc.request)
			if c.status != 1 || c.stdout != "" || !strings.Contains(c.lastLine(), tc.want) {
				t.Errorf("status %d, printed %q, reason %q, want status 1 and a reason with %q",
					c.status, c.stdout, c.lastLine(), tc.want)
			}
		})
	}
}

func TestASickDriverAnswersThatItIs(t *testing.T) {
	c := callProcess(t, []string{driverrpc.ConfigEnv + `={"word":"sick"}`}, "CheckHealth", "{}")
	if c.status != 0 || strings.TrimSpace(c.stdout) != `{"healthy":false,"reason":"the word is sick"}` {
		t.Errorf("CheckHealth: status %d, %q", c.status, c.stdout)
	}
}

func TestRecordsOfACallCarryItsTrace(t *testing.T) {
	for name, tc := range map[string]struct{ sent, want string }{
		"sound": {traceparent, traceparent[3:35]}, "broken": {strings.ToUpper(traceparent), ""}, "none": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := callProcess(t, []string{driverrpc.TraceEnv + "=" + tc.sent}, "Advance", `{"challenge":{"do":"log"}}`)
			records := map[string]string{}
			for line := range strings.Lines(c.stderr) {
				var record struct {
					Msg, A  string
					TraceID string `json:"trace_id"`
					SpanID  string `json:"span_id"`
					G       map[string]any
				}
				_ = json.Unmarshal([]byte(line), &record)
				records[record.Msg] = fmt.Sprint(record.TraceID, len(record.SpanID), len(record.G))
			}
			for msg, want := range map[string]string{
				"plain": fmt.Sprint(tc.want, len(tc.want)/2, 0), "grouped": fmt.Sprint(tc.want, len(tc.want)/2, 2),
				"without a context": fmt.Sprint("", 0, 0),
			} {
				if records[msg] != want {
					t.Errorf("record %q has trace, length of span and group %q, want %q\n%s", msg, records[msg], want, c.stderr)
				}
			}
		})
	}
}

func TestUnknownArgumentsGetAUsageThatNamesTheFlags(t *testing.T) {
	for name, args := range map[string][]string{
		"flag": {"--frobnicate"}, "argument": {"serve"}, "method": {"--call", "Guess"}, "no method": {"--call"},
		"empty method": {"--call", ""}, "two flags": {"--describe", "--debug"}, "help": {"--help"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := driverCommand(t, "judge", nil, args...)
			out, err := cmd.CombinedOutput()
			want := 2
			if name == "help" {
				want = 0
			}
			if cmd.ProcessState.ExitCode() != want {
				t.Errorf("%v ended with %v, want exit status %d", args, err, want)
			}
			for _, flag := range []string{driverrpc.DescribeFlag, driverrpc.CallFlag + " METHOD", driverrpc.DebugFlag} {
				if !strings.Contains(string(out), flag) {
					t.Errorf("%v printed %q, want it to name %s", args, out, flag)
				}
			}
		})
	}
}

func TestAnExecDriverDoesNotServeGRPC(t *testing.T) {
	h := driverrpc.Handshake()
	out, err := driverCommand(t, "judge", []string{h.MagicCookieKey + "=" + h.MagicCookieValue}).CombinedOutput()
	if err == nil || !strings.Contains(string(out), driverrpc.CallFlag) {
		t.Errorf("it printed %q, %v, want a failure that names %s", out, err, driverrpc.CallFlag)
	}
}
