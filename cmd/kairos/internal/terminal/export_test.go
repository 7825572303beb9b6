package terminal

import "encoding/json"

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
