package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
	"github.com/kairos-mcp/kairos/sdk/settings"
)

const method = "roots/list"

// maxLooks is how many looks run at a time: each may hold a file in memory.
const maxLooks = 4

func definition() driver.Driver {
	r := roots{Of: settings.New(absolute), looks: make(chan struct{}, maxLooks)}
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "roots", Version: "0.1.0", Role: driver.RoleCapability,
			Handles: []string{driver.KindFiles}, Effect: driver.EffectReads, Features: []string{driver.FeaturePartial, driver.FeatureRoots},
			Sends: []driver.ClientMethod{{Method: method}}, ConfigSchema: r.Schema(),
		},
		Capability: r,
	}
}

type config struct {
	Allow    []string      `json:"allow" doc:"folders, as absolute paths, that may be looked into for any client; a client that is not on this machine gets no others"`
	MaxNames int           `json:"max_names" default:"20000" min:"1" max:"1000000" doc:"how many names of files and folders one look may read"`
	MaxBytes int           `json:"max_bytes" default:"67108864" min:"1" max:"1073741824" doc:"how many bytes of files one look may read"`
	Timeout  time.Duration `json:"timeout" default:"5s" min:"10ms" max:"5m" doc:"how long one look may take; more than the call_timeout of the driver has no effect"`
}

// absolute refuses folders whose meaning would depend on where the driver runs.
func absolute(c config) []driver.Diagnostic {
	var found []driver.Diagnostic
	for i, dir := range c.Allow {
		if !filepath.IsAbs(dir) {
			found = append(found, driver.Problem(fields.Pointer("allow", fmt.Sprint(i)), "must be an absolute path"))
		}
	}
	return found
}

// roots is safe for concurrent use.
type roots struct {
	*settings.Of[config]
	looks chan struct{} // one for each look that runs
}

// demand is what a files input shows: see the display of the host's input.
type demand struct {
	Files json.RawMessage `json:"files"`
	// Roots that the run began with.
	Roots []string `json:"roots"`
	// Since is when the run began.
	Since time.Time `json:"since"`
}

// Render implements driver.Capability. The client is asked for its roots where
// they count; else there is nobody to ask, and the answer comes at once.
func (r roots) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	if req.Input.Kind != driver.KindFiles {
		return driver.CannotRender("roots does not obtain inputs of kind " + req.Input.Kind), nil
	}
	cfg := r.Now()
	if req.Client.Roots && (filecheck.Local(req.Client) || len(cfg.Allow) > 0) {
		return driver.AskClient(method, json.RawMessage(`{}`)), nil
	}
	answer, why, err := r.answer(ctx, cfg, req.Input, where{client: req.Client})
	if err != nil || answer == nil {
		return driver.CannotRender(why), err
	}
	return driver.RenderResult{Answer: answer}, nil
}

// Interpret implements driver.Capability. A client without roots leaves what the
// operator allows; one that replies with an error leaves nothing.
func (r roots) Interpret(ctx context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	if e := req.ClientError; e != nil {
		return driver.CannotInterpret(fmt.Sprintf("the client did not list its roots: %s (%d)", e.Message, e.Code)), nil
	}
	listed, unread, problems := readRoots(req.Raw)
	if problems != nil {
		return driver.NotAnAnswer(problems...), nil
	}
	at := where{client: req.Client, listed: listed, unread: unread}
	answer, why, err := r.answer(ctx, r.Now(), req.Input, at)
	if err != nil || answer == nil {
		return driver.CannotInterpret(why), err
	}
	return driver.InterpretResult{Answer: answer}, nil
}

// answer looks at the files, or says why it cannot.
func (r roots) answer(ctx context.Context, cfg config, in driver.Input, at where) (*driver.Answer, string, error) {
	var d demand
	if err := json.Unmarshal(in.Display, &d); err != nil {
		return nil, "the demanded files cannot be read: " + err.Error(), nil
	}
	checks, found := filecheck.Parse(d.Files)
	if len(found) > 0 || len(checks) == 0 {
		return nil, "the list of demanded files is not sound: " + fields.Text(found), nil
	}
	folders, why := at.folders(cfg.Allow, d.Roots)
	if why != "" {
		return nil, why, nil
	}
	select {
	case r.looks <- struct{}{}:
		defer func() { <-r.looks }()
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	l, why := newLook(ctx, cfg, d.Since, folders)
	if why != "" {
		return nil, why, nil
	}
	result := l.result(checks, filecheck.Local(at.client))
	if err := l.close(); err != nil {
		return nil, "", err
	}
	value, err := json.Marshal(result)
	if err != nil {
		return nil, "", err
	}
	return &driver.Answer{Value: value, Provenance: driver.ServerObserved}, "", nil
}
