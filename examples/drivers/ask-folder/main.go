// Command kairos-driver-ask_folder is a capability driver: it asks through a
// folder. It writes one request per question and waits for one answer per
// request, so that people, or programs that know nothing of KAIROS, can answer.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
	"github.com/kairos-mcp/kairos/sdk/settings"
)

func main() { driverrpc.Main(definition()) }

func definition() driver.Driver {
	s := settings.New(absolute)
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "ask_folder", Version: "0.1.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence},
			// To ask twice under one key is to ask once, so the server may repeat calls.
			Effect: driver.EffectReads, Features: []string{driver.FeatureHuman}, ConfigSchema: s.Schema(),
		},
		Capability: asker{s},
	}
}

// config is where the driver asks.
type config struct {
	Folder string        `json:"folder" required:"true" doc:"absolute path of the folder with the requests and the answers"`
	Every  time.Duration `json:"every" default:"5s" min:"100ms" max:"1h" doc:"how often to look for an answer"`
}

func absolute(c config) []driver.Diagnostic {
	if !filepath.IsAbs(c.Folder) {
		return []driver.Diagnostic{driver.Problem("/folder", "must be an absolute path: a driver works in /")}
	}
	return nil
}

type asker struct{ *settings.Of[config] }

// keys are idempotency keys that can be names of files.
var keys = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// Render writes the request, or finds the answer to it. The idempotency key is
// the name of both files: it is the same whenever this question is asked again,
// and another one for every other run, step and attempt.
func (a asker) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	switch {
	case req.Input.Kind != driver.KindEvidence:
		return driver.CannotRender("only evidence is asked for in the folder, not " + req.Input.Kind), nil
	case req.Input.Sensitive:
		return driver.CannotRender("a secret is not left in a folder"), nil
	case !keys.MatchString(req.IdempotencyKey):
		return driver.CannotRender("the call has no idempotency key that can name a file"), nil
	}
	c := a.Now()
	f, err := open(c.Folder)
	if err != nil {
		return driver.RenderResult{}, err
	}
	defer func() { _ = f.Close() }() // nothing was written through it itself
	if err := f.ask(req); err != nil {
		return driver.RenderResult{}, err
	}
	value, trouble, err := f.answer(req)
	switch {
	case err != nil:
		return driver.RenderResult{}, err
	case value != nil:
		// Nobody knows who wrote it, only that they may write there.
		return driver.RenderResult{Answer: &driver.Answer{Value: value, Provenance: driver.LinkHolder}}, nil
	}
	later := driver.RenderLater(fmt.Sprintf("the question is in the folder as %s", requestFile(req.IdempotencyKey)), c.Every)
	later.Pending.Message = trouble
	return later, nil
}

// Interpret is for drivers whose questions go to the client or the agent.
func (asker) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("answers come from the folder"), nil
}

// request is what a request file holds.
type request struct {
	Protocol string          `json:"protocol"`
	Step     string          `json:"step"`
	Text     string          `json:"text"` // of the step
	Question string          `json:"question"`
	Schema   json.RawMessage `json:"schema,omitempty"` // of the answer
	Attempt  int             `json:"attempt"`
	// Refused says what was wrong with the last answer.
	Refused []string `json:"refused,omitempty"`
}

func requestOf(req driver.RenderRequest) request {
	r := request{
		Protocol: req.Step.Protocol, Step: req.Step.Label, Text: req.Step.Text, Question: req.Input.Description,
		Schema: req.Input.Schema, Attempt: req.Attempt,
	}
	for _, d := range req.Diagnostics {
		r.Refused = append(r.Refused, d.Message)
	}
	return r
}
