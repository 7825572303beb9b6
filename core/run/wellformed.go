package run

import (
	"bytes"
	"encoding/json"
	"slices"
)

// WellFormed returns JSON from outside in a form that has a canonical one (RFC
// 8785), so that it can be digested: half a surrogate pair, which JSON can spell
// but no text can hold, becomes U+FFFD, and of a key that stands twice the last
// counts. Anything else stays byte for byte.
func WellFormed(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return raw
	}
	if _, err := Digest(raw); err == nil {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw // whoever reads it says what is wrong
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return raw
	}
	return bytes.TrimSpace(b.Bytes())
}

// WellFormed is the evidence with each of its documents in such a form.
func (ev Evidence) WellFormed() Evidence {
	ev.Proof, ev.Output = WellFormed(ev.Proof), WellFormed(ev.Output)
	ev.Answers = slices.Clone(ev.Answers)
	for i := range ev.Answers {
		ev.Answers[i].Value = WellFormed(ev.Answers[i].Value)
	}
	return ev
}
