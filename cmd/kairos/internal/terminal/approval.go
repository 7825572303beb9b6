package terminal

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// wasApproved reports whether the person has just approved exactly this work in a
// question of the server, so that the host need not ask for the same once more.
// Only a question counts that names the step in its first line and shows the whole
// challenge in its second, as approvals do.
func (t task) wasApproved(question string) bool {
	lines := strings.SplitN(question, "\n", 3)
	if len(lines) < 2 || !strings.HasPrefix(lines[0], fmt.Sprintf("Approve step %d of %d, ", t.index, t.count)) {
		return false
	}
	shown, ok := strings.CutPrefix(lines[1], "It will be done with "+t.challenge.Type+": ")
	if !ok {
		return false
	}
	var approved, due map[string]any
	if decode([]byte(shown), &approved) != nil || decode(t.challenge.Display, &due) != nil {
		return false
	}
	return reflect.DeepEqual(approved, due)
}

// approves reports whether an answer to a form is the word that approves.
func approves(answer json.RawMessage) bool {
	var said struct {
		Confirmation string `json:"confirmation"`
	}
	return json.Unmarshal(answer, &said) == nil && said.Confirmation == approved
}

// permits reports whether an answer to a form allows KAIROS to do steps itself.
func permits(answer json.RawMessage) bool {
	var said struct {
		Allow string `json:"allow"`
	}
	return json.Unmarshal(answer, &said) == nil && said.Allow != "" && !slices.Contains(noWords, strings.ToLower(said.Allow))
}
