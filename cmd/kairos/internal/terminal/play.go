package terminal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// Bounds of a run that gets nowhere.
const (
	// maxTries is how often one challenge is submitted.
	maxTries = 20
	// maxCalls is how many submissions a run can have.
	maxCalls = 1000
)

// modelID is what the host calls itself where a tool asks for the model.
const modelID = "kairos-run"

// Play plays one protocol to its attestation. The server and every other
// process it starts have ended when it returns. If the run stops earlier, the
// error is a *StopError; the Result says how far it came either way. A read
// from Config.In that a cancelled context left behind ends with its
// line.
func Play(ctx context.Context, cfg Config) (res Result, err error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, fmt.Errorf("configuration: %w", err)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	h := newHost(cfg, fail)
	server, err := connect(ctx, child{
		argv: cfg.Server, env: cfg.ServerEnv, log: cfg.ServerLog, version: cfg.Era.version(), options: h.options(),
		elicits: cfg.elicits(),
	})
	if err != nil {
		return Result{}, err
	}
	defer func() {
		// Questions still open see the end of ctx and return, then nothing uses
		// the connections any more.
		fail(nil)
		err = errors.Join(err, h.questions.wait(context.Background()), h.tools.close(), closeClient(server))
		h.model.client.Close()
		h.console.close()
	}()
	server.OnNotification(h.notified)
	h.tools.adopt(serverName, server)
	if len(cfg.AllowAutoSampling) > 0 && !cfg.allowsAuto() {
		h.console.say("allowAutoSampling names %s and not this server, %s: what it asks of your model is shown to you first", strings.Join(cfg.AllowAutoSampling, ", "), serverName)
	}
	p := &play{host: h, server: server, tried: map[string]int{}, solved: map[int]Solved{}, failed: map[int]int{}, began: time.Now()}
	p.result.Version = server.ProtocolVersion()
	err = p.run(ctx)
	p.result.Solved = nil
	for _, index := range slices.Sorted(maps.Keys(p.solved)) {
		p.result.Solved = append(p.result.Solved, p.solved[index])
	}
	if err = cause(ctx, err); err != nil {
		p.result.Stopped = err.Error()
	}
	return p.result, err
}

// play is one run.
type play struct {
	host   *host
	server *client.Client
	result Result
	// tried counts the submissions for each challenge, by nonce.
	tried  map[string]int
	solved map[int]Solved // by step index
	failed map[int]int    // failures of each step that were not the person's or the agent's own
	open   stepReply      // the last reply
	doing  string         // what the server is about to do
	worked bool           // what was submitted last is the host's work, not a placeholder
	began  time.Time
}

func (p *play) run(ctx context.Context) error {
	uri, err := p.locate(ctx)
	if err != nil {
		return err
	}
	p.result.Chain = uri
	if p.host.cfg.Session == "" {
		if err := p.sayWorth(ctx, uri); err != nil {
			return err
		}
	}
	reply, err := p.begin(ctx, uri)
	if err != nil {
		return err
	}
	for range maxCalls {
		p.record(reply)
		if err := giveUp(reply); err != nil {
			return err
		}
		if err := p.askWhetherAgain(ctx, reply); err != nil {
			return err
		}
		uri, attest, err := reply.nextCall()
		if err != nil {
			return err
		}
		if attest {
			return p.attest(ctx, uri)
		}
		if reply, err = p.advance(ctx, uri, reply); err != nil {
			return err
		}
	}
	return &StopError{Code: StopNoProgress, Message: fmt.Sprintf("no end after %d calls", maxCalls)}
}

// call calls a tool of the server and returns its object.
func (p *play) call(ctx context.Context, tool string, arguments map[string]any) (json.RawMessage, error) {
	p.host.exchange.note(func(a *asked) { a.anything, a.form, a.onlyApproved = false, false, true })
	var req mcp.CallToolRequest
	req.Params.Name = tool
	req.Params.Arguments = arguments
	// With a progress token the server may wait for a person as long as it likes.
	req.Params.Meta = &mcp.Meta{ProgressToken: tool}
	defer p.host.during(ctx, cmp.Or(p.doing, "working"))()
	res, err := p.server.CallTool(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tool, cause(ctx, err))
	}
	if res.IsError {
		return nil, toolFailure(tool, res)
	}
	return payload(res)
}

// sayWorth says before anything begins what a finished run will be worth.
func (p *play) sayWorth(ctx context.Context, uri string) error {
	raw, err := p.call(ctx, "kairos_dump", map[string]any{"uri": uri, "protocol": true})
	if err != nil {
		return err
	}
	var protocol struct {
		Worth string `json:"worth"`
	}
	if err := json.Unmarshal(raw, &protocol); err != nil {
		return fmt.Errorf("decode the protocol: %w", err)
	}
	if protocol.Worth != "" {
		p.host.console.say("A finished run is worth at least this: %s.", protocol.Worth)
	}
	return nil
}

func (p *play) begin(ctx context.Context, uri string) (stepReply, error) {
	arguments := map[string]any{"uri": uri}
	if input := p.host.cfg.Input; len(input) > 0 {
		arguments["input"] = input
	}
	if session := p.host.cfg.Session; session != "" {
		arguments["session_id"] = session
	}
	raw, err := p.call(ctx, "kairos_begin", arguments)
	if errors.Is(err, errRefused) {
		return p.afterRefusal(ctx, uri)
	}
	if err != nil {
		return stepReply{}, err
	}
	return decodeReply(raw)
}

// afterRefusal continues a run whose first question was refused before the
// server could say anything of the run. The reply to begin is lost, so the
// placeholder has only the type of the first step.
func (p *play) afterRefusal(ctx context.Context, uri string) (stepReply, error) {
	raw, err := p.call(ctx, "kairos_dump", map[string]any{"uri": uri})
	if err != nil {
		return stepReply{}, err
	}
	var step struct {
		Challenge challenge `json:"challenge"`
	}
	if err := json.Unmarshal(raw, &step); err != nil {
		return stepReply{}, fmt.Errorf("decode the first step: %w", err)
	}
	return p.persist(ctx, uri, map[string]any{"type": step.Challenge.Type})
}

// advance submits the next solution: a placeholder where the server may yet
// ask for what it needs, else the agent's own work. A reply with an error code
// says that the server has tried.
func (p *play) advance(ctx context.Context, uri string, reply stepReply) (stepReply, error) {
	if reply.ErrorCode == codeWaiting && p.host.exchange.known().dismissed {
		// The server would ask again, and the person has just closed the question.
		return stepReply{}, &StopError{
			Code: StopDismissed, Message: "the question was dismissed without an answer; the run stays open and asks again when it is resumed",
			NextAction: reply.NextAction,
		}
	}
	if reply.waitsAtAddress() && !p.host.exchange.known().form {
		if err := p.host.visit(ctx, reply); err != nil {
			return stepReply{}, err
		}
		// The server holds the call while the person is there, however long that is.
		return p.persist(ctx, uri, reply.Challenge.placeholder())
	}
	if reply.ErrorCode == codeWaitingDriver {
		return p.persist(ctx, uri, reply.Challenge.placeholder()) // the server holds the call meanwhile
	}
	nonce := reply.Challenge.Nonce
	tries := p.tried[nonce]
	if p.tried[nonce]++; tries >= maxTries {
		return stepReply{}, &StopError{
			Code: StopNoProgress, Message: fmt.Sprintf("the same challenge came back %d times", tries), NextAction: reply.NextAction,
		}
	}
	solution := reply.Challenge.placeholder()
	p.worked = false
	if reply.ErrorCode == codeWaiting {
		// The question is still on the person's screen; asking again before
		// they are done gains nothing.
		if err := p.host.questions.wait(ctx); err != nil {
			return stepReply{}, err
		}
	} else if !reply.leftToServer() && (reply.ErrorCode != "" || tries > 0 || !p.serverMayAsk()) {
		var err error
		work := task{content: reply.CurrentStep.Content, challenge: reply.Challenge, index: reply.StepIndex, count: reply.StepCount}
		if solution, err = (agent{p.host}).solve(ctx, work); err != nil {
			return stepReply{}, p.unsolved(ctx, reply, err)
		}
		p.worked = true
	}
	return p.persist(ctx, uri, solution)
}

// persist submits a solution. A client of the stateless era refuses a question
// by not coming back; the server counts it as abandoned when it is asked for
// again, so the same submission goes out again.
func (p *play) persist(ctx context.Context, uri string, solution map[string]any) (stepReply, error) {
	reply, err := p.next(ctx, uri, solution)
	for range maxRefusals {
		if !errors.Is(err, errRefused) {
			return reply, err
		}
		reply, err = p.next(ctx, uri, solution)
	}
	if errors.Is(err, errRefused) {
		err = refusal("the question to the model")
	}
	return reply, err
}

// maxRefusals is how often a question that was refused is put up with.
const maxRefusals = 3

// serverMayAsk reports whether the client can answer questions at all.
func (p *play) serverMayAsk() bool {
	return p.host.cfg.elicits() != nil || p.host.cfg.declares(Sampling)
}

func (p *play) next(ctx context.Context, uri string, solution map[string]any) (stepReply, error) {
	arguments := map[string]any{"uri": uri, "solution": solution}
	if p.result.RunID != "" {
		arguments["run_id"] = p.result.RunID
	}
	raw, err := p.call(ctx, "kairos_next", arguments)
	if err != nil {
		return stepReply{}, err
	}
	return decodeReply(raw)
}

// unsolved is the error of a step whose work was not done.
func (p *play) unsolved(ctx context.Context, reply stepReply, err error) error {
	if none := (*noServerError)(nil); errors.As(err, &none) && p.host.exchange.known().notAccepted {
		none.run = p.result.RunID
	}
	if !errors.Is(err, errRefused) {
		return fmt.Errorf("step %q: %w", stepTitle(reply), cause(ctx, err))
	}
	stop := refusal(fmt.Sprintf("the work of step %q", stepTitle(reply)))
	stop.NextAction = reply.NextAction
	return stop
}

func refusal(what string) *StopError {
	return &StopError{Code: StopRefused, Message: what + " was refused"}
}

func (p *play) attest(ctx context.Context, uri string) error {
	arguments := map[string]any{
		"uri": uri, "outcome": "success", "llm_model_id": modelID,
		"message": "Played to the end by kairos run.",
	}
	if p.result.RunID != "" {
		arguments["run_id"] = p.result.RunID
	}
	raw, err := p.call(ctx, "kairos_attest", arguments)
	if err != nil {
		return err
	}
	var said struct {
		Verified   bool   `json:"verified"`
		ErrorCode  string `json:"error_code"`
		Message    string `json:"message"`
		TotalRated int    `json:"total_rated"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return fmt.Errorf("decode the attestation: %w", err)
	}
	if said.ErrorCode != "" {
		return &StopError{Code: said.ErrorCode, Message: said.Message}
	}
	p.result.Attested, p.result.Verified = true, said.Verified
	return nil
}

// locate returns the URI to begin with.
func (p *play) locate(ctx context.Context) (string, error) {
	cfg := p.host.cfg
	switch {
	case cfg.Document != "":
		return p.mint(ctx, cfg.Document)
	case cfg.Query != "":
		return p.search(ctx, cfg.Query)
	}
	return cfg.URI, nil
}

func (p *play) mint(ctx context.Context, document string) (string, error) {
	raw, err := p.call(ctx, "kairos_mint", map[string]any{
		"markdown_doc": document, "llm_model_id": modelID, "force_update": true,
	})
	if err != nil {
		return "", err
	}
	var minted struct {
		Items []struct {
			URI string `json:"uri"`
		} `json:"items"`
	}
	if err := json.Unmarshal(raw, &minted); err != nil || len(minted.Items) == 0 {
		return "", fmt.Errorf("kairos_mint stored nothing: %s", clip(string(raw)))
	}
	return minted.Items[0].URI, nil
}

func (p *play) search(ctx context.Context, query string) (string, error) {
	raw, err := p.call(ctx, "kairos_search", map[string]any{"query": query})
	if err != nil {
		return "", err
	}
	var found struct {
		Confidence string `json:"confidence"`
		Choices    []struct {
			URI        string  `json:"uri"`
			ChainLabel *string `json:"chain_label"`
			Role       string  `json:"role"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(raw, &found); err != nil {
		return "", fmt.Errorf("decode the search result: %w", err)
	}
	// Best first; the choices that are not matches offer help, not a protocol.
	var matches []string
	for _, c := range found.Choices {
		if c.Role != "match" || c.ChainLabel == nil {
			continue
		}
		if found.Confidence == "sure" {
			p.host.console.say("found: %s (%s)", *c.ChainLabel, c.URI)
			return c.URI, nil
		}
		matches = append(matches, fmt.Sprintf("%q (%s)", *c.ChainLabel, c.URI))
	}
	if len(matches) == 0 {
		return "", &StopError{Code: StopNotFound, Message: fmt.Sprintf("no protocol matches %q", query)}
	}
	return "", &StopError{
		Code: StopNotFound, Message: fmt.Sprintf("it is not certain which protocol %q means; perhaps %s", query, strings.Join(matches, " or ")),
		NextAction: "name the protocol by its exact title or its URI",
	}
}
