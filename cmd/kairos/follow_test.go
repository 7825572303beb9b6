package main

import (
	"encoding/json"
	"testing"

	"github.com/kairos-mcp/kairos/core/engine"
)

func TestAPersonIsShownTheTemplateWithoutWhatIsFilledIn(t *testing.T) {
	reply := engine.StepReply{
		Challenge: engine.Challenge{Type: "comment"},
		NextCall: &engine.NextCall{Tool: "kairos_next", Arguments: json.RawMessage(
			`{"uri":"kairos://mem/x","solution":{"type":"comment","nonce":"n","proof_hash":"h","comment":{"text":"\u003cstring: text\u003e"}}}`)},
	}
	const want = `{"comment":{"text":"<string: text>"}}`
	if got := callAfter(reply).form(reply.Challenge); got != want {
		t.Errorf("form = %s, want %s", got, want)
	}
}
