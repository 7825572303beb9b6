package prompt_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/prompt"
)

func TestWhatIsConfiguredWordsTheInput(t *testing.T) {
	for name, tc := range map[string]struct {
		config       prompt.Config
		system, user string
		temperature  float64
	}{
		"nothing":      {prompt.Config{}, "own system", "own {prompt} user", prompt.Temperature},
		"system":       {prompt.Config{System: "other"}, "other", "own {prompt} user", prompt.Temperature},
		"user behind":  {prompt.Config{User: "Please:"}, "own system", "Please:\n\nown {prompt} user", prompt.Temperature},
		"user around":  {prompt.Config{User: "<{prompt}> and {prompt}"}, "own system", "<own {prompt} user> and {prompt}", prompt.Temperature},
		"temperature":  {prompt.Config{Temperature: new(0.0)}, "own system", "own {prompt} user", 0},
		"longest":      {prompt.Config{MaxTokens: 5}, "own system", "own {prompt} user", prompt.Temperature},
		"nucleus only": {prompt.Config{TopP: new(0.5)}, "own system", "own {prompt} user", prompt.Temperature},
	} {
		in := driver.Input{System: "own system", User: "own {prompt} user"}
		tc.config.Apply(&in)
		if in.System != tc.system || in.User != tc.user || *in.Temperature != tc.temperature || in.MaxTokens != tc.config.MaxTokens {
			t.Errorf("%s: Apply = %q, %q, %v, %d", name, in.System, in.User, *in.Temperature, in.MaxTokens)
		}
		if want := prompt.TopP; tc.config.TopP == nil && *in.TopP != want {
			t.Errorf("%s: top_p = %v, want %v", name, *in.TopP, want)
		}
	}
}
