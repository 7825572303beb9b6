package protocol

import (
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The bounds of a step's request to a model.
const (
	// MaxTokens is the largest allowed length of an answer.
	MaxTokens      = 1_000_000
	maxTemperature = 2.0
	maxTopP        = 1.0
)

// Sound is the block without values that are out of bounds, which older servers
// stored. Nil stays nil.
func (s *Sampling) Sound() *Sampling {
	if s == nil {
		return nil
	}
	sound := *s
	for _, d := range s.problems() {
		switch d.Pointer {
		case "/max_tokens":
			sound.MaxTokens = nil
		case "/temperature":
			sound.Temperature = nil
		case "/top_p":
			sound.TopP = nil
		}
	}
	return &sound
}

// problems reports values that are out of bounds. Pointers are relative to the
// block.
func (s *Sampling) problems() []driver.Diagnostic {
	if s == nil {
		return nil
	}
	var found []driver.Diagnostic
	if n := s.MaxTokens; n != nil && (*n < 1 || *n > MaxTokens) {
		found = append(found, driver.Problem("/max_tokens", fmt.Sprintf("max_tokens must be from 1 to %d, not %d", MaxTokens, *n)))
	}
	for _, one := range []struct {
		key   string
		value *float64
		most  float64
	}{{"temperature", s.Temperature, maxTemperature}, {"top_p", s.TopP, maxTopP}} {
		if one.value != nil && (*one.value < 0 || *one.value > one.most) {
			found = append(found, driver.Problem("/"+one.key, fmt.Sprintf("%s must be from 0 to %g, not %g", one.key, one.most, *one.value)))
		}
	}
	return found
}
