package secrets_test

import (
	"regexp"
	"testing"

	"github.com/kairos-mcp/kairos/core/director/secrets"
)

// A driver may pass the key to a program, which must not take it for an option.
func TestKeysOfCallsAreWordsOfLettersAndDigits(t *testing.T) {
	s, word := secrets.New(nil, nil), regexp.MustCompile(`^[a-z2-7]{52}$`)
	for i := range 2000 {
		if key, err := s.CallKey("run", i); err != nil || !word.MatchString(key) {
			t.Fatalf("the key of call %d is %q (%v), want 52 letters and digits", i, key, err)
		}
	}
}
