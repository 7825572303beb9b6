package main

import (
	"context"
	"errors"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"time"

	"github.com/kairos-mcp/kairos/internal/openai"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/prompt/exchange"
	"github.com/kairos-mcp/kairos/sdk/settings"
)

func definition() driver.Driver {
	l := llm{settings.New(check), openai.New()}
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "llm", Version: "0.1.0", Role: driver.RoleCapability,
			Handles: []string{driver.KindEvidence, driver.KindJudge},
			Effect:  driver.EffectReads, Features: []string{driver.FeatureModel, driver.FeaturePartial}, ConfigSchema: l.Schema(),
		},
		Capability: l,
	}
}

// config says which endpoint is asked and how.
type config struct {
	BaseURL    string        `json:"base_url" doc:"the endpoint, up to and with its /v1; empty: nobody is asked"`
	Model      string        `json:"model" doc:"the model that is asked" max:"200"`
	JudgeModel string        `json:"judge_model" doc:"the model that judges results; empty: model" max:"200"`
	APIKeyEnv  string        `json:"api_key_env" doc:"environment variable that holds the key, to be named in env_from as well; empty: no key" max:"200"`
	Timeout    time.Duration `json:"timeout" default:"9s" min:"100ms" max:"5m" doc:"how long an answer may take; the call_timeout of the driver must be longer"`
	MaxTokens  int           `json:"max_tokens" default:"4096" min:"1" max:"1000000" doc:"longest answer, whatever a step wants"`
	Format     string        `json:"format" enum:"json_schema,json_object,none" default:"json_schema" doc:"how the endpoint is told to answer in JSON; what it refuses is left out"`
}

// check judges what a schema cannot say.
func check(c config) []driver.Diagnostic {
	var found []driver.Diagnostic
	wrong := func(key, message string) { found = append(found, driver.Problem(fields.Pointer(key), message)) }
	if c.BaseURL == "" {
		return nil
	}
	if err := openai.CheckURL(c.BaseURL); err != nil {
		wrong("base_url", err.Error())
	}
	if c.Model == "" {
		wrong("model", "is missing: which model of the endpoint is asked?")
	}
	if c.APIKeyEnv != "" && os.Getenv(c.APIKeyEnv) == "" {
		wrong("api_key_env", "the environment variable is empty or not passed on: name it in env_from, too")
	}
	return found
}

// llm asks the configured model. It remembers nothing between calls but open
// connections.
type llm struct {
	*settings.Of[config]
	models *openai.Client
}

// Render implements driver.Capability: it asks the model at once.
func (l llm) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	c, in := l.Now(), req.Input
	switch {
	case c.BaseURL == "":
		return driver.CannotRender("no model is configured: set base_url and model of the driver llm"), nil
	case in.Kind != driver.KindEvidence && in.Kind != driver.KindJudge:
		return driver.CannotRender("llm does not obtain inputs of kind " + in.Kind), nil
	case in.Person:
		return driver.CannotRender("a person's own answer is not asked of a model"), nil
	case in.Sensitive:
		return driver.CannotRender("a model must not be asked for secrets"), nil
	}
	if problem := exchange.Unusable(in); problem != "" {
		return driver.CannotRender("the input has no usable schema: " + problem), nil
	}
	within, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var sent atomic.Bool
	within = httptrace.WithClientTrace(within, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	said, err := c.ask(within, l.models, req)
	if err != nil {
		if errors.Is(within.Err(), context.DeadlineExceeded) {
			err = errors.New("no answer within " + c.Timeout.String())
		}
		why := "the model endpoint: " + err.Error()
		if sent.Load() { // it may have cost tokens, whatever came of it
			return driver.AskedInVain(why), nil
		}
		return driver.CannotRender(why), nil
	}
	cutOff := ""
	if said.finish == openai.FinishLength {
		cutOff = "finish_reason " + openai.FinishLength
	}
	value, problems := exchange.Read(said.text, cutOff, in)
	if problems != nil {
		return driver.RenderedInvalid(problems...), nil
	}
	return driver.RenderResult{Answer: &driver.Answer{
		Value: value, Provenance: driver.ModelGenerated, Model: said.model, StopReason: said.finish, Usage: said.usage,
	}}, nil
}

// Interpret implements driver.Capability. No client is asked, so that none answers.
func (llm) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("llm asks its own endpoint, not the client"), nil
}
