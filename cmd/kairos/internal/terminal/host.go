package terminal

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/tty"
	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/internal/openai"
)

// host answers what the server asks its client. Its methods are called by the
// connection, concurrently with the run.
type host struct {
	cfg     Config
	console *console
	decider decider
	person  person    // the decider, if it is not a script
	script  *prompter // the decider, if it is one
	tools   *toolbox
	model   model
	// fail ends the run: a question could not even be put.
	fail context.CancelCauseFunc

	questions inFlight
	exchange  exchange
	steps     steps
	visits    visits

	mu sync.Mutex // guards the fields below
	// refused prompts, by digest. A client of the stateless era cannot tell the
	// server of a refusal, so it will be asked again.
	refused map[[32]byte]bool
}

func newHost(cfg Config, fail context.CancelCauseFunc) *host {
	h := &host{
		cfg: cfg, console: newConsole(cfg.In, cfg.Out, look{signs: cfg.Signs, colours: cfg.Colours}), tools: newToolbox(cfg),
		model: model{cfg.Model, openai.New()},
		fail:  fail, refused: map[[32]byte]bool{},
	}
	h.visits = visits{console: h.console, been: map[string]bool{}}
	h.steps = steps{console: h.console, timed: cfg.Signs, began: time.Now()}
	h.person = person{h.console, h.console}
	if cfg.Forms {
		h.person.by = forms{h.console}
	}
	h.decider = h.person
	if cfg.Script != nil {
		h.script = newPrompter(cfg.Script)
		h.decider = h.script
	}
	return h
}

// options are the handlers of the capabilities that are declared.
func (h *host) options() []client.ClientOption {
	var options []client.ClientOption
	if h.cfg.elicits() != nil {
		options = append(options, client.WithElicitationHandler(h))
	}
	if h.cfg.declares(Sampling) {
		options = append(options, client.WithSamplingHandler(h))
	}
	if h.cfg.declares(Roots) {
		options = append(options, client.WithRootsHandler(h))
	}
	return options
}

// ListRoots names the directory that the agent works in.
func (h *host) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	dir, err := filepath.Abs(h.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: uri.String(), Name: filepath.Base(dir)}}}, nil
}

// decide puts a question to the person or the script. Decisions of a
// script are shown too: a run that nobody watches can be read afterwards.
func (h *host) decide(ctx context.Context, q question) (decision, error) {
	if h.script != nil {
		h.console.say("\n%s", heading(q.kind))
		h.console.quote(q.shown())
	}
	return h.decider.decide(ctx, q)
}

// watched reports whether a person at a terminal can say how the run continues.
func (h *host) watched() bool { return h.script == nil && tty.Width(h.cfg.In) > 0 }

// tryAgain asks the person whether something that failed is done once more.
func (h *host) tryAgain(ctx context.Context, question string) (bool, error) {
	done, err := h.console.dialog(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	tty.Discard(h.console.stdin)
	got, err := h.person.by.choose(ctx, question, "retry", "stop")
	return got == "retry", err
}

// told prints what was decided where no person did, who would know.
func (h *host) told(format string, args ...any) {
	if h.script != nil {
		h.console.say(format, args...)
	}
}

// Elicit shows the server's form, or the address where the person answers.
func (h *host) Elicit(ctx context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	defer h.questions.begin()()
	h.exchange.note(func(a *asked) { a.anything = true })
	ask := h.elicit
	if req.Params.Mode == mcp.ElicitationModeURL {
		ask = h.elicitAt
	}
	res, err := ask(ctx, req.Params)
	if err != nil {
		h.fail(err)
		return nil, err
	}
	h.exchange.note(func(a *asked) { a.dismissed = res.Action == mcp.ElicitationResponseActionCancel })
	return res, nil
}

func (h *host) elicit(ctx context.Context, params mcp.ElicitationParams) (*mcp.ElicitationResult, error) {
	raw, err := json.Marshal(params.RequestedSchema)
	if err != nil {
		return nil, err
	}
	f, err := parseForm(raw)
	if err != nil {
		return nil, fmt.Errorf("the server's form cannot be shown: %w", err)
	}
	h.exchange.note(func(a *asked) { a.form = true })
	h.steps.introduce(params.Message)
	d, err := h.decide(ctx, question{kind: KindElicitation, text: params.Message + f.text(), unread: unfenced(params.Message), schema: raw})
	if err != nil {
		return nil, err
	}
	h.exchange.note(func(a *asked) {
		a.onlyApproved = a.onlyApproved && slices.ContainsFunc(f.fields, field.approves)
		if a.approved = ""; h.script == nil && d.verb == verbAnswer && approves(d.answer) {
			a.approved = params.Message
		}
		if slices.ContainsFunc(f.fields, field.accepts) {
			a.notAccepted = d.verb != verbAnswer || !accepts(d.answer)
		}
	})
	res := &mcp.ElicitationResult{}
	switch d.verb {
	case verbDecline:
		res.Action = mcp.ElicitationResponseActionDecline
	case verbCancel:
		res.Action = mcp.ElicitationResponseActionCancel
	default:
		content, err := f.content(d.answer)
		if err != nil {
			return nil, fmt.Errorf("the answer to %q does not fit the form: %w", firstLine(params.Message), err)
		}
		res.Action, res.Content = mcp.ElicitationResponseActionAccept, content
	}
	h.told("form: %s %s", res.Action, d.text())
	return res, nil
}

// CreateMessage shows the server's prompt and lets a model answer it.
func (h *host) CreateMessage(ctx context.Context, req mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	defer h.questions.begin()()
	h.exchange.note(func(a *asked) { a.anything = true })
	c, err := h.sample(ctx, req.CreateMessageParams)
	if err != nil {
		if !errors.Is(err, errRefused) {
			h.fail(err)
		}
		return nil, err
	}
	res := &mcp.CreateMessageResult{Model: c.Model, StopReason: c.StopReason}
	res.Role = mcp.RoleAssistant
	res.Content = mcp.NewTextContent(c.Text)
	return res, nil
}

func (h *host) sample(ctx context.Context, params mcp.CreateMessageParams) (completion, error) {
	p, err := readPrompt(params)
	if err != nil {
		return completion{}, err
	}
	digest := sha256.Sum256([]byte(p.text()))
	if h.wasRefused(digest) {
		return completion{}, errRefused
	}
	c, err := h.answerPrompt(ctx, p)
	if errors.Is(err, errRefused) {
		h.mu.Lock()
		h.refused[digest] = true
		h.mu.Unlock()
		h.console.say("sampling: refused")
	}
	if err == nil {
		h.console.say("sampling: %s answers %s", c.Model, c.Text)
	}
	return c, err
}

func (h *host) wasRefused(digest [32]byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused[digest]
}

func (h *host) answerPrompt(ctx context.Context, p prompt) (completion, error) {
	if h.unseen(p) {
		return h.askModel(ctx, p, true)
	}
	d, err := h.decide(ctx, question{kind: KindSampling, text: p.text(), canRun: h.hasModel()})
	if err != nil {
		return completion{}, err
	}
	switch d.verb {
	case verbRefuse:
		return completion{}, errRefused
	case verbCall:
		res, err := h.scriptedCall(ctx, d)
		return completion{Text: string(res.Value), Model: "tool:" + d.call.Tool, StopReason: "endTurn"}, err
	case verbRun:
		if d.prompt != "" {
			p.User = d.prompt
		}
		c, err := h.askModel(ctx, p, false)
		if err != nil {
			return completion{}, err
		}
		c.Text, err = h.decider.review(ctx, c.Text)
		return c, err
	}
	return completion{Text: d.text(), Model: h.writer(), StopReason: "endTurn"}, nil
}

// unseen reports whether the prompt may go to the model without a look: the
// server asked for that and the person trusts this server with it.
func (h *host) unseen(p prompt) bool {
	return h.script == nil && p.Approval == "auto" && h.hasModel() &&
		h.cfg.allowsAuto()
}

func (h *host) hasModel() bool { return h.cfg.Model.URL != "" }

// writer is who wrote an answer that no model gave.
func (h *host) writer() string {
	if h.script != nil {
		return "script"
	}
	return "person"
}

// scriptedCall makes the tool call of a rule and keeps its result.
func (h *host) scriptedCall(ctx context.Context, d decision) (mcpclient.Result, error) {
	server, name := d.call.Server, d.call.Tool
	if server == "" {
		ref, err := h.tools.find(ctx, name)
		if err != nil {
			return mcpclient.Result{}, err
		}
		server, name = ref.server, ref.tool.Name
	}
	res, err := h.tools.call(ctx, server, name, d.arguments)
	if err != nil {
		return mcpclient.Result{}, err
	}
	h.console.say("call: %s.%s(%s) -> %s", server, name, compact(d.arguments), res.Value)
	h.script.keep(d.call.As, res.Value)
	return res, nil
}

// askModel lets the model answer, with the tools of the agent's servers at
// hand. A call that changes something needs the person even when unseen.
func (h *host) askModel(ctx context.Context, p prompt, unseen bool) (completion, error) {
	if !h.hasModel() {
		return completion{}, errors.New("there is no model to ask (--llm-url)")
	}
	var tools []openai.Tool
	byName := map[string]toolRef{}
	if len(h.cfg.Servers) > 0 {
		refs, err := h.tools.all(ctx, slices.Sorted(maps.Keys(h.cfg.Servers))...)
		if err != nil {
			return completion{}, err
		}
		for _, ref := range refs {
			t := ref.forModel()
			tools, byName[t.Function.Name] = append(tools, t), ref
		}
	}
	return h.model.complete(ctx, p, tools, func(ctx context.Context, name, arguments string) (string, error) {
		ref, ok := byName[name]
		if !ok {
			return fmt.Sprintf("there is no tool %q", name), nil
		}
		args, ok := readArguments(arguments)
		if !ok {
			return "the arguments are not a JSON object", nil
		}
		if unseen && ref.readOnly() {
			return h.callFor(ctx, ref, args)
		}
		args, err := h.consent(ctx, ref, args)
		if errors.Is(err, errRefused) {
			return "the person refused this call", nil
		}
		if err != nil {
			return "", err
		}
		return h.callFor(ctx, ref, args)
	})
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return clip(line)
}

func compact(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
