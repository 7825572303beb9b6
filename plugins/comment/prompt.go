package main

import (
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// evidenceSchema is the JSON Schema of the evidence, with the minimum length.
const evidenceSchema = `{"type":"object","properties":{"text":{"type":"string","minLength":%d}},` +
	`"required":["text"],"additionalProperties":false}`

// systemPrompt is for a model that is asked for the evidence.
func systemPrompt(p params) string {
	return fmt.Sprintf(`You are solving a KAIROS challenge. Provide a verification comment (min %d chars) summarizing, in your own words, `+
		`what was really done in this step and what came of it. Do not repeat the step's text and never invent work that was not done. `+
		`Return JSON: {"text": "<the comment>"}.`, p.MinLength)
}

func userPrompt(step driver.Step) string {
	text := firstRunes(strings.TrimSpace(step.Text), maxReference)
	if text == "" {
		text = step.Label
	}
	return "The step:\n" + text
}

func description(p params) string {
	return fmt.Sprintf("Write a comment of at least %d characters on what was really done in this step and what came of it, in your own words. "+
		"Do not repeat the step's text and do not fabricate.", p.MinLength)
}

func firstRunes(text string, limit int) string {
	n := 0
	for i := range text {
		if n == limit {
			return text[:i]
		}
		n++
	}
	return text
}
