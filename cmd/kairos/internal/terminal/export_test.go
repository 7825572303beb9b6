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
