package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// ContentDigest identifies what the protocol says: SHA-256 in hex over its title,
// inputs and steps. Another revision or copy that says the same has the same
// digest; its ids and times are not part of it.
func (c Chain) ContentDigest() (string, error) {
	type step struct {
		Label     string          `json:"label"`
		Text      string          `json:"text"`
		Challenge json.RawMessage `json:"challenge,omitempty"`
	}
	content := struct {
		Title       string          `json:"title"`
		Description string          `json:"description,omitempty"`
		Inputs      json.RawMessage `json:"inputs,omitempty"`
		Steps       []step          `json:"steps"`
	}{Title: c.Title, Description: c.Description, Inputs: c.Inputs}
	for _, s := range c.Steps {
		content.Steps = append(content.Steps, step{s.Label, s.Text, s.Challenge})
	}
	b, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("digest protocol %q: %w", c.Title, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
