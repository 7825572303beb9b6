package ops

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/protocol"
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
