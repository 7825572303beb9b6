// Package prompt is how an operator words what a challenge driver asks of a
// language model. How the model is then asked and its answer is read is package
// exchange.
package prompt

import (
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Defaults where neither the challenge nor the configuration says.
const (
	Temperature = 0.2
	TopP        = 0.9
)

// Config is how an operator words what a challenge driver asks of a model. It
// is meant to be a field of the driver's settings; the step's own `sampling`
// goes over it. The zero Config changes nothing.
type Config struct {
	System      string   `json:"system" doc:"system prompt instead of the driver's own" max:"16000"`
	User        string   `json:"user" doc:"user prompt; {prompt} in it is replaced by the driver's own, which is put behind it where that is missing" max:"16000"`
	Temperature *float64 `json:"temperature" doc:"instead of 0.2" min:"0" max:"2"`
	TopP        *float64 `json:"top_p" doc:"instead of 0.9" min:"0" max:"1"`
	MaxTokens   int      `json:"max_tokens" doc:"longest answer; 0: 1024" min:"0" max:"1000000"`
}

// Own is the setting of a driver's configuration that has nothing else.
type Own struct {
	Prompt Config `json:"prompt" doc:"how a model is asked for the evidence"`
}

// placeholder is where Config.User has the driver's own user prompt in Config.User.
const placeholder = "{prompt}"

// Apply words the input as configured; what is not configured stays, and what
// nobody says is the default.
func (c Config) Apply(in *driver.Input) {
	if in.Temperature == nil {
		in.Temperature = new(Temperature)
	}
	if in.TopP == nil {
		in.TopP = new(TopP)
	}
	if c.System != "" {
		in.System = c.System
	}
	if c.User != "" {
		in.User = around(c.User, in.User)
	}
	if c.Temperature != nil {
		in.Temperature = c.Temperature
	}
	if c.TopP != nil {
		in.TopP = c.TopP
	}
	if c.MaxTokens != 0 {
		in.MaxTokens = c.MaxTokens
	}
}

func around(text, own string) string {
	if !strings.Contains(text, placeholder) {
		return text + "\n\n" + own
	}
	// Once: what stands in the driver's own text is not looked at.
	before, after, _ := strings.Cut(text, placeholder)
	return before + own + after
}
