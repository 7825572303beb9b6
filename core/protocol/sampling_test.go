package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// Values out of bounds that an older server stored are replaced by the defaults.
func TestValuesOutOfBoundsAreAsIfTheyWereNotThere(t *testing.T) {
	for stored, want := range map[string]string{
		`{"system":"s","temperature":9,"top_p":-1,"max_tokens":-5}`: `{"system":"s"}`,
		`{"user":"u","max_tokens":0}`:                               `{"user":"u"}`,
		`{"temperature":2,"top_p":1,"max_tokens":1000000}`:          `{"temperature":2,"top_p":1,"max_tokens":1000000}`,
		`{"temperature":0.5,"max_tokens":1000001}`:                  `{"temperature":0.5}`,
	} {
		c, err := protocol.CommonOf(json.RawMessage(`{"type":"x","sampling":` + stored + `}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(c.Sampling.Sound())
		if err != nil || string(got) != want {
			t.Errorf("Sound of %s = %s, %v, want %s", stored, got, err, want)
		}
	}
}
