package terminal

import (
	"encoding/json"
	"strings"
	"testing"
)

// FormAnswer reads a form and an answer to it, as for a scripted elicitation.
func FormAnswer(schema, answer json.RawMessage) (map[string]any, error) {
	f, err := parseForm(schema)
	if err != nil {
		return nil, err
	}
	_ = f.text()
	return f.content(answer)
}

// WasApproved is task.wasApproved of step 2 of 3.
func WasApproved(question, typ, display string) bool {
	return task{challenge: challenge{Type: typ, Display: json.RawMessage(display)}, index: 2, count: 3}.wasApproved(question)
}

// ForPerson is a message of the server as a person reads it.
func ForPerson(message string) string { return forPerson(message) }

// Unfenced is a question of the server as a person reads it.
func Unfenced(text string) string { return unfenced(text) }

// Whether such a server ends before or after it is written to is a matter of luck.
func TestAServerThatEndsAtOnceSaysTheSameEachTime(t *testing.T) {
	for range 100 {
		_, err := connect(t.Context(), child{argv: []string{"false"}})
		if err == nil || !strings.Contains(err.Error(), "false did not start; what it wrote to standard error says why") {
			t.Fatal(err)
		}
	}
}
