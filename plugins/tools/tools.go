package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
	"github.com/kairos-mcp/kairos/sdk/settings"
)

// challengeType is the type of the challenges whose tool is called.
const challengeType = "mcp"

func definition() driver.Driver {
	t := &tools{Of: settings.New(sound), open: &connections{}, calls: newCalls()}
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: mcpclient.DriverName, Version: "0.1.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence},
			Effect: driver.EffectChanges, ConfigSchema: t.Schema(), ActionSchema: json.RawMessage(actionSchema),
			Features: []string{driver.FeaturePreview, driver.FeatureLauncher, driver.FeaturePartial, driver.FeatureRecover, driver.FeatureCancel},
		},
		Capability: t,
	}
}

type config struct {
	Servers string        `json:"servers" max:"4194304" doc:"content of tools.json, which the server fills in: see kairos tools"`
	Start   time.Duration `json:"start_timeout" default:"20s" min:"100ms" max:"5m" doc:"how long a server may take to start and to list its tools; at most half of timeout"`
	Timeout time.Duration `json:"timeout" default:"10m" min:"1s" max:"24h" doc:"how long a call may take, with the start of its server; more than 10 minutes only helps if somebody asks meanwhile"`
	Idle    time.Duration `json:"idle" default:"5m" min:"1s" max:"24h" doc:"how long a server that nobody calls keeps running"`
}

func sound(c config) []driver.Diagnostic {
	if _, err := mcpclient.Parse([]byte(c.Servers)); err != nil {
		return []driver.Diagnostic{driver.Problem("/servers", err.Error())}
	}
	return nil
}

// tools is safe for concurrent use.
type tools struct {
	*settings.Of[config]
	open  *connections
	calls *calls
}

// file is what the operator added and accepted.
func (t *tools) file() mcpclient.File {
	f, err := mcpclient.Parse([]byte(t.Now().Servers))
	if err != nil {
		return mcpclient.File{} // unreachable: Configure refuses it
	}
	return f
}

// display is what an mcp challenge shows.
type display struct {
	Tool      string          `json:"tool_name"`
	Arguments json.RawMessage `json:"arguments"`
	Expected  json.RawMessage `json:"expected_result"`
}

// plan is a call that is to be made, exactly.
type plan struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	// Pin and Launch are the digests of what was accepted.
	Pin    string `json:"pin"`
	Launch string `json:"launch"`
	// Proposed: the agent chose the arguments.
	Proposed bool `json:"proposed,omitempty"`
}

// errChanged begins what is said where something is not as it was accepted.
const errChanged = "TOOL_CHANGED"

// meant finds the one tool that the challenge names, as it was accepted.
func (t *tools) meant(name string) (mcpclient.Found, mcpclient.Server, error) {
	f := t.file()
	found := f.Find(name)
	switch len(found) {
	case 1:
	case 0:
		return mcpclient.Found{}, mcpclient.Server{}, fmt.Errorf("no server with the tool %q was added: `kairos tools add NAME -- COMMAND` adds one", name)
	default:
		var names []string
		for _, f := range found {
			names = append(names, f.Server)
		}
		return mcpclient.Found{}, mcpclient.Server{}, fmt.Errorf("the tool %q is one of %s: name it in the challenge as %s/%s", name, strings.Join(names, " and "), names[0], found[0].Tool)
	}
	s := f.Servers[found[0].Server]
	if s.Launch != s.LaunchDigest() {
		return found[0], s, fmt.Errorf("%s: the server %s is started in another way than was accepted: `kairos tools diff` shows it, `kairos tools accept %s` accepts it",
			errChanged, found[0].Server, found[0].Server)
	}
	return found[0], s, nil
}

// Render implements driver.Capability: it makes the call that was planned, once, and
// says what came of it whenever it is asked again.
func (t *tools) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	var l mcpclient.List
	if json.Unmarshal(req.Plan, &l) == nil && l.Server != "" {
		return t.list(ctx, l.Server), nil
	}
	c := t.calls.find(req.IdempotencyKey)
	switch {
	case c != nil && req.Cancel:
		c.end(errCancelled)
	case c != nil:
	case req.Recover && !t.repeats(req):
		return t.answerUnknown(req), nil
	default:
		prepared, err := t.prepare(req)
		if err != nil {
			return notCalled(req.Recover, err), nil
		}
		callCtx, end := context.WithCancelCause(context.WithoutCancel(ctx))
		prepared.end = end
		if c, err = t.calls.add(req.IdempotencyKey, prepared); err != nil {
			end(nil)
			return notCalled(req.Recover, err), nil
		}
		if c == prepared {
			go t.run(callCtx, req.IdempotencyKey, c)
		} else {
			end(nil)
		}
	}
	return c.wait(ctx, req), nil
}

// repeats reports whether a call that this process knows nothing of is made again: its
// server makes a call once, however often it gets the same key.
func (t *tools) repeats(req driver.RenderRequest) bool {
	var p plan
	if req.Cancel || json.Unmarshal(req.Plan, &p) != nil {
		return false
	}
	_, err := t.accepted(p)
	return err == nil && t.file().Servers[p.Server].Deduplicates
}

// notCalled is the result where no call was made now. Again: an earlier one may have been.
func notCalled(again bool, err error) driver.RenderResult {
	if again {
		return driver.RenderUnknown("the call ended with the driver process that made it, and could not be repeated: " + err.Error())
	}
	return driver.CannotRender(err.Error())
}

// prepare checks that what was planned is what the operator accepted.
func (t *tools) prepare(req driver.RenderRequest) (*call, error) {
	var p plan
	if err := json.Unmarshal(req.Plan, &p); err != nil {
		return nil, fmt.Errorf("there is no plan of what to call: %w", err)
	}
	asked, why := readDisplay(req.Input)
	if why != "" {
		return nil, errors.New(why)
	}
	found, err := t.accepted(p)
	if err != nil {
		return nil, err
	}
	// Before the run a template may have stood in for a value.
	if problems := schema.Validate(found.Pin.InputSchema, p.Arguments); fields.AnyError(problems) {
		return nil, fmt.Errorf("the arguments do not fit the tool %s: %s", p.Tool, fields.Text(problems))
	}
	return &call{
		plan: p, found: found, asked: asked, evidence: req.Input.Schema, limit: t.Now().Timeout, again: req.Recover,
		end: func(error) {}, done: make(chan struct{}),
	}, nil
}

// accepted is the tool of the plan, if it is still accepted as it was then.
func (t *tools) accepted(p plan) (mcpclient.Found, error) {
	found, server, err := t.meant(p.Server + "/" + p.Tool)
	if err == nil && (found.Pin.Digest() != p.Pin || server.Launch != p.Launch) {
		err = fmt.Errorf("%s: the tool %s of %s was accepted anew since this call was planned", errChanged, p.Tool, p.Server)
	}
	return found, err
}

// answerUnknown answers for a call that this process knows nothing of.
func (t *tools) answerUnknown(req driver.RenderRequest) driver.RenderResult {
	var p plan
	if json.Unmarshal(req.Plan, &p) == nil {
		if found, err := t.accepted(p); err == nil && found.Pin.Class == mcpclient.Reads {
			return driver.RenderNotDone("the call ended with the driver process that made it, and changed nothing: the tool only reads")
		}
	}
	return t.calls.refuse(req.IdempotencyKey)
}

// run makes the call and keeps its result.
func (t *tools) run(ctx context.Context, key string, c *call) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("no answer within %s", c.limit))
	defer cancel()
	c.result = t.make(ctx, key, c)
	c.end(nil)
	close(c.done)
	t.calls.ended(key, c)
}

// make makes the call.
func (t *tools) make(ctx context.Context, key string, c *call) driver.RenderResult {
	conn, release, err := t.connect(ctx, c)
	switch {
	case err != nil && !c.again && errors.Is(context.Cause(ctx), errCancelled):
		return driver.RenderNotDone(errCancelled.Error() + " before the tool was called")
	case err != nil:
		return notCalled(c.again, err)
	}
	defer release()
	res, err := conn.Call(ctx, mcpclient.Call{
		Tool: c.plan.Tool, Arguments: c.plan.Arguments, Key: key, Progress: func(p mcpclient.Progress) { c.progress.Store(&p) },
	})
	if uncertain := (*mcpclient.UncertainError)(nil); errors.As(err, &uncertain) {
		if t.file().Servers[c.plan.Server].Deduplicates && !c.again && ctx.Err() == nil {
			t.open.drop(conn)
			c.again = true
			return t.make(ctx, key, c)
		}
		return t.uncertain(ctx, conn, c, err)
	}
	if err != nil {
		t.open.drop(conn) // it holds the headers that were refused
		return notCalled(c.again, unreached(c.plan.Server, err))
	}
	return c.answer(res)
}

// uncertain is what a call comes to whose end was not seen.
func (t *tools) uncertain(ctx context.Context, conn *mcpclient.Connection, c *call, err error) driver.RenderResult {
	reads := c.found.Pin.Class == mcpclient.Reads
	if !errors.Is(context.Cause(ctx), errCancelled) {
		t.open.drop(conn)
		if reads {
			return driver.CannotRender(err.Error())
		}
		return driver.RenderUnknown(err.Error())
	}
	how := "its server was told"
	if t.open.stop(conn) {
		how = "its server was told, and ended"
	}
	if reads {
		return driver.RenderNotDone(errCancelled.Error() + ", and changed nothing: the tool only reads; " + how)
	}
	return driver.RenderUnknown(fmt.Sprintf("the call of %s was cancelled, and nobody saw what it had done until then; %s", c.plan.Tool, how))
}

// report is the evidence that an mcp challenge takes, and what was observed besides.
type report struct {
	Tool      string          `json:"tool_name"`
	Arguments json.RawMessage `json:"arguments"`
	Success   bool            `json:"success"`
	Result    json.RawMessage `json:"result"`
	Observed  observed        `json:"observed"`
}

// observed is of the whole result, of which the report has a part.
type observed struct {
	Bytes  int    `json:"bytes"`
	Digest string `json:"digest"`
	// Redescribed: the tool's description is not the one that was accepted.
	Redescribed bool `json:"description_changed,omitempty"`
}

// maxFailure is how many bytes are kept of what a tool says of its failure.
const maxFailure = 2000

// answer is the evidence of a call that has ended. The words of a failure are for the
// people who look into it.
func (c *call) answer(res mcpclient.Result) driver.RenderResult {
	r := report{
		Tool: c.asked.Tool, Arguments: c.plan.Arguments, Success: res.Success,
		Observed: observed{len(res.Value), fmt.Sprintf("sha256:%x", sha256.Sum256(res.Value)), c.redescribed},
	}
	if res.Success {
		r.Result = namedFields(res.Value, c.evidence, c.asked.Expected)
	} else {
		r.Result = encoded(plain.TextWithin(words(res.Value), maxFailure))
	}
	value, err := json.Marshal(r)
	if err != nil {
		return driver.RenderUnknown("the tool was called, and its result cannot be recorded: " + err.Error())
	}
	return driver.RenderResult{Answer: &driver.Answer{Value: value, Provenance: driver.ServerObserved}}
}

// words are what a failure says, without the quotes of a text.
func words(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// Interpret implements driver.Capability: nobody is asked.
func (*tools) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("it calls tools itself and asks nobody"), nil
}

// connect returns a connection to the plan's server, whose tool is still the one
// that was accepted. Release has to be called once the call has ended.
func (t *tools) connect(ctx context.Context, call *call) (*mcpclient.Connection, func(), error) {
	p := call.plan
	wait := startTime(ctx, t.Now().Start)
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("no answer within %s", wait))
	defer cancel()
	c, release, err := t.open.to(ctx, p.Server, t.file().Servers[p.Server], t.Now().Idle)
	if err != nil {
		return nil, nil, unreached(p.Server, err)
	}
	listed, err := c.Tools(ctx)
	if err != nil {
		release()
		t.open.drop(c)
		return nil, nil, unreached(p.Server, err)
	}
	if call.redescribed, err = compare(p, call.found, listed); err != nil {
		release()
		return nil, nil, err
	}
	if call.redescribed {
		fmt.Fprintf(os.Stderr, "WARN the description of the tool %s of %s is not what was accepted: kairos tools diff %s shows it\n", p.Tool, p.Server, p.Server)
	}
	return c, release, nil
}

// startTime is how long a server may take to start: at most half of the time that is
// left, so that a slow start is known to have called nothing, and the call has time.
func startTime(ctx context.Context, most time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(most, time.Until(deadline)/2).Round(time.Millisecond)
	}
	return most
}

// compare compares what the server offers now with what was accepted. A description
// alone is an error only where it told somebody which arguments to choose.
func compare(p plan, found mcpclient.Found, listed []mcpclient.Tool) (redescribed bool, err error) {
	for _, now := range listed {
		if now.Name != p.Tool {
			continue
		}
		for _, c := range found.Pin.Changes(now.Pin) {
			if c.What != "description" || p.Proposed {
				return false, fmt.Errorf("%s: the %s of the tool %s is not what was accepted: `kairos tools diff %s` shows it, `kairos tools accept %s` accepts it",
					errChanged, c.What, p.Tool, p.Server, p.Server)
			}
			redescribed = true
		}
		return redescribed, nil
	}
	return false, fmt.Errorf("%s: the server %s has no tool %s any more", errChanged, p.Server, p.Tool)
}

// unreached says why a server was not called, in our own words: an agent reads it.
func unreached(server string, err error) error {
	if errors.Is(err, mcpclient.ErrLogin) {
		return fmt.Errorf("TOOL_LOGIN_REQUIRED: %w: renew the file that header_files names for %s in tools.json", err, server)
	}
	if said := (*mcpclient.SaidError)(nil); errors.As(err, &said) {
		return fmt.Errorf("%w; `kairos tools check %s` shows what it said", said.Unwrap(), server)
	}
	return err
}
