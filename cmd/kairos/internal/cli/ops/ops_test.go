package ops

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

func TestADriverThatUsedTooMuchMemoryIsAProblem(t *testing.T) {
	well := driverhost.Status{Name: "quiz", State: driverhost.Ready}
	if found := ailments(socket.Found{}, well, driverhost.Lock{}); len(found) > 0 {
		t.Errorf("a driver that is well: %+v", found)
	}
	well.Excess = driverhost.MemoryExcess{Count: 2, At: time.Now(), Why: "it used 1500 MiB of memory and may use 256"}
	found := ailments(socket.Found{}, well, driverhost.Lock{})
	if len(found) != 1 || !strings.Contains(found[0].Problem, "1500 MiB") || !strings.Contains(found[0].Fix, "drivers.settings.quiz.memory_mib") {
		t.Errorf("a driver that was ended for its memory: %+v, want what it used and what to do", found)
	}
}

// A server may be stopped between the two questions that it is asked.
func TestAServerThatStopsWhileItIsAskedIsLeftOut(t *testing.T) {
	for name, stops := range map[string]bool{"it stops": true, "it only fails": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder is entered
				t.Fatal(err)
			}
			at := filepath.Join(dir, "admin.sock")
			var s *socket.Server
			var closing sync.WaitGroup
			mux := http.NewServeMux()
			mux.HandleFunc("POST "+operations.ShowServer.Path(), func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(operations.Info{PID: os.Getpid(), DriversDir: dir})
			})
			mux.HandleFunc("POST "+operations.ListDrivers.Path(), func(http.ResponseWriter, *http.Request) {
				if stops {
					closing.Go(func() { _ = s.Close() })
					for lives(at) {
						time.Sleep(time.Millisecond) // polling: the handler is waited for
					}
				}
				panic(http.ErrAbortHandler)
			})
			s = socket.NewServer(at, mux, nil, slog.New(slog.DiscardHandler))
			if err := errors.Join(s.Prepare(), s.Listen()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close(); closing.Wait() })
			var c config.Config
			c.Admin.Socket, c.Drivers.Dir = at, dir
			var r doctorReport
			r.servers(t.Context(), c)
			if len(r.Checks) != 1 || r.Checks[0].OK != stops {
				t.Errorf("the report is %+v, want it without a problem: %t", r.Checks, stops)
			}
		})
	}
}

// lives reports whether somebody listens on a socket.
func lives(at string) bool {
	conn, err := new(net.Dialer).Dial("unix", at)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func TestManyProtocolsWithoutAnIndexAreWarnedOf(t *testing.T) {
	for name, tc := range map[string]struct {
		protocols int
		endpoint  bool
		fix       string
	}{
		"few":              {20_000, true, ""},
		"with an endpoint": {20_001, true, "qdrant.url"},
		"with the table":   {50_000, false, "split the library"},
	} {
		var r doctorReport
		r.library(tc.protocols, tc.endpoint)
		if tc.fix == "" && len(r.Checks) > 0 {
			t.Errorf("%s: %+v, want nothing", name, r.Checks)
		}
		if tc.fix != "" && (len(r.Checks) != 1 || len(r.Checks[0].Warnings) != 1 || !strings.Contains(r.Checks[0].Warnings[0].Fix, tc.fix)) {
			t.Errorf("%s: %+v, want a warning that says %q", name, r.Checks, tc.fix)
		}
	}
}

func TestChallengeSchemaHasTheKeysOfTheCore(t *testing.T) {
	var schema struct {
		Properties struct {
			Challenge struct {
				Properties map[string]struct {
					Properties map[string]any `json:"properties"`
				} `json:"properties"`
			} `json:"challenge"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(challengeSchema, &schema); err != nil {
		t.Fatal(err)
	}
	challenge := schema.Properties.Challenge.Properties
	if diff := cmp.Diff(jsonKeys(protocol.Common{}), sortedKeys(challenge)); diff != "" {
		t.Errorf("keys of a challenge (-code +schema):\n%s", diff)
	}
	if diff := cmp.Diff(jsonKeys(protocol.Sampling{}), sortedKeys(challenge["sampling"].Properties)); diff != "" {
		t.Errorf("keys of sampling (-code +schema):\n%s", diff)
	}
}

func jsonKeys(v any) []string {
	var keys []string
	for f := range reflect.TypeOf(v).Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
