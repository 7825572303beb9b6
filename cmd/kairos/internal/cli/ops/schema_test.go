package ops

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/protocol"
)

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
