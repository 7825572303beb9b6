package director

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// maxRounds bounds how often a challenge driver may ask for more about one step.
const maxRounds = 32

// maxOutput bounds what later steps see of a step, in bytes.
const maxOutput = 256 << 10

// evidenceOf is the answer that came from outside, which a verdict has to rest on.
func evidenceOf(s run.Step) (driver.Answer, bool) {
	for _, a := range s.Answers {
		if a.Via != runs.CoreDriver && a.InputID != driver.KindJudge {
			return a, true
		}
	}
	return driver.Answer{}, false
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
