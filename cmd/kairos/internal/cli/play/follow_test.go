package play

import (
	"encoding/json"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
)

func TestAPersonIsShownTheTemplateWithoutWhatIsFilledIn(t *testing.T) {
	reply := api.StepReply{
		Challenge: api.Challenge{Type: "comment"},
		NextCall: &api.NextCall{Tool: "kairos_next", Arguments: json.RawMessage(
			`{"uri":"kairos://mem/x","solution":{"type":"comment","nonce":"n","proof_hash":"h","comment":{"text":"\u003cstring: text\u003e"}}}`)},
	}
	const want = `{"comment":{"text":"<string: text>"}}`
	if got := callAfter(reply).form(reply.Challenge); got != want {
		t.Errorf("form = %s, want %s", got, want)
	}
}
