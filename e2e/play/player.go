package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
)

const title = "Soak"

// document has a step of each challenge type, and one that KAIROS does itself: it
// changes something, so a person approves it each time.
const document = `# ` + title + `

` + "```json" + `
{"inputs": {"type": "object", "required": ["who"], "properties": {"who": {"type": "string"}}}}
` + "```" + `

## Build

Build it.

` + "```json" + `
{"challenge": {"type": "shell", "shell": {"cmd": "true"}}}
` + "```" + `

## Report

Say what was built.

` + "```json" + `
{"challenge": {"type": "comment", "comment": {"min_length": 20}}}
` + "```" + `

## Count

Count one up.

` + "```json" + `
{"challenge": {"type": "mcp", "evidence_from": "server", "mcp": {"tool_name": "count", "arguments": {"who": "{{ input.who }}"}}}}
` + "```" + `

## Release

A person releases it.

` + "```json" + `
{"challenge": {"type": "user_input", "approval_mode": "user", "user_input": {"prompt": "Release it?"}}}
` + "```" + `

## Look

Look whether it runs.

` + "```json" + `
{"challenge": {"type": "mcp", "mcp": {"tool_name": "look"}}}
` + "```" + `
`

// Player is an agent with an MCP client, a person who approves everything, and one run
// after the other.
type Player struct {
	t      *testing.T
	s      *Server
	l      *Ledger
	points *Points
	name   string
	era    string
	uri    string
	client *client.Client
	begun  int
}

// NewPlayer returns player i of a protocol. Players alternate between both eras.
func NewPlayer(t *testing.T, s *Server, l *Ledger, p *Points, i int, uri string) *Player {
	return &Player{t: t, s: s, l: l, points: p, name: fmt.Sprintf("p%d", i), uri: uri, era: []string{"2025-11-25", "2026-07-28"}[i%2]}
}

// Elicit is the person.
func (p *Player) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	p.points.At(PointAsked)
	defer p.points.At(PointAnswered)
	res := new(mcp.ElicitationResult)
	res.Action, res.Content = mcp.ElicitationResponseActionAccept, map[string]any{"confirmation": "approved"}
	return res, nil
}

// Play makes runs until stop is closed and finishes the last one.
func (p *Player) Play(stop <-chan struct{}) {
	defer p.leave()
	for {
		select {
		case <-stop:
			return
		default:
		}
		if p.t.Failed() {
			return
		}
		p.run()
	}
}

// run makes one run, however often the server is killed meanwhile.
func (p *Player) run() {
	p.begun++
	who := fmt.Sprintf("%s-%d", p.name, p.begun)
	open := p.begin(who)
	if open == nil {
		return
	}
	r := p.l.begin(open.RunID, who)
	limit := time.Now().Add(4 * time.Minute)
	for time.Now().Before(limit) {
		if solvedAll(open) {
			p.attest(r, open, "success")
			return
		}
		reply := p.next(r, open)
		switch reply.ErrorCode {
		case "":
			p.l.acknowledge(p.t, r, reply)
		case "OUTCOME_UNKNOWN":
			// The call was cut short, so nobody knows: the run ends without it.
			r.unknown()
			p.attest(r, reply, "failure")
			return
		case "NONCE_MISMATCH":
			p.t.Errorf("run %s: %s: %s", r.id, reply.ErrorCode, reply.Message)
			return
		default:
			r.note(reply.ErrorCode)
			time.Sleep(20 * time.Millisecond)
		}
		open = reply
	}
	p.t.Errorf("run %s is not finished: %v\n%s", r.id, r.codes(), p.s.Lately())
}

// begin opens a run. A run whose begin was not acknowledged is the server's to forget.
func (p *Player) begin(who string) *api.StepReply {
	for range 200 {
		reply := new(api.StepReply)
		if err := p.call("kairos_begin", map[string]any{"uri": p.uri, "input": map[string]any{"who": who}}, reply); err == nil {
			if reply.RunID == "" {
				p.t.Errorf("kairos_begin: %+v", reply)
				return nil
			}
			return reply
		}
		p.leave()
		time.Sleep(20 * time.Millisecond)
	}
	p.t.Errorf("no run can be begun\n%s", p.s.Lately())
	return nil
}

// next submits the solution of the open step until there is a reply: the same again,
// as a network retries, or a fresh look at the run, as a new client takes it.
func (p *Player) next(r *Entry, open *api.StepReply) *api.StepReply {
	for range 400 {
		reply := new(api.StepReply)
		err := p.call("kairos_next", p.solution(open), reply)
		if err == nil && reply.RunID != "" {
			return reply
		}
		p.leave()
		time.Sleep(rand.N(30 * time.Millisecond))
		if rand.IntN(2) == 0 {
			continue
		}
		fresh := new(api.StepReply)
		if p.call("kairos_begin", map[string]any{"uri": p.uri, "session_id": r.id}, fresh) == nil && fresh.RunID != "" {
			p.l.resumed(p.t, r, fresh)
			open = fresh
			if solvedAll(open) {
				return open
			}
		}
	}
	p.t.Errorf("run %s gets no reply\n%s", r.id, p.s.Lately())
	return &api.StepReply{RunID: r.id, ErrorCode: "NONCE_MISMATCH", Message: "no reply"}
}

// solution is what the agent sends for the open step.
func (p *Player) solution(open *api.StepReply) map[string]any {
	args := map[string]any{"uri": open.CurrentStep.URI, "run_id": open.RunID}
	solution := map[string]any{"type": open.Challenge.Type, "nonce": open.Challenge.Nonce, "proof_hash": open.Challenge.ProofHash}
	switch open.StepIndex {
	case 1:
		solution["shell"] = map[string]any{"exit_code": 0, "stdout": "built"}
	case 2:
		solution["comment"] = map[string]any{"text": "The program was built without a warning and starts."}
	case 5:
		solution["mcp"] = map[string]any{"tool_name": "look", "success": true, "result": map[string]any{"up": true}}
	default: // the server obtains it
		return args
	}
	args["solution"] = solution
	return args
}

func (p *Player) attest(r *Entry, open *api.StepReply, outcome string) {
	for range 200 {
		reply := new(api.AttestReply)
		args := map[string]any{"uri": open.CurrentStep.URI, "run_id": r.id, "outcome": outcome, "message": "soak"}
		if err := p.call("kairos_attest", args, reply); err == nil {
			r.attested(reply.Verified)
			return
		}
		p.leave()
		time.Sleep(20 * time.Millisecond)
	}
	p.t.Errorf("run %s cannot be attested\n%s", r.id, p.s.Lately())
}

var errNoReply = errors.New("no reply")

// call calls a tool and decodes its reply. An error is a call without a reply.
func (p *Player) call(tool string, args map[string]any, reply any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := p.connect(ctx); err != nil {
		return err
	}
	var call mcp.CallToolRequest
	call.Params.Name, call.Params.Arguments = tool, args
	time.AfterFunc(rand.N(3*time.Millisecond), func() { p.points.At(PointSent) })
	res, err := p.client.CallTool(ctx, call)
	if err != nil {
		return err
	}
	if len(res.Content) == 0 {
		return errNoReply
	}
	text := mcp.GetTextFromContent(res.Content[0])
	if err := json.Unmarshal([]byte(text), reply); err != nil {
		return fmt.Errorf("%w: %s", errNoReply, text)
	}
	return nil
}

func (p *Player) connect(ctx context.Context) error {
	if p.client != nil {
		return nil
	}
	http, err := transport.NewStreamableHTTP("http://"+p.s.Address+"/mcp", transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	made := client.NewClient(http, client.WithElicitationHandler(p), client.WithProtocolVersion(p.era))
	if err := made.Start(ctx); err != nil {
		return err
	}
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = p.era
	hello.Params.ClientInfo = mcp.Implementation{Name: "soak", Version: "1"}
	if _, err := made.Initialize(ctx, hello); err != nil {
		_ = made.Close()
		return err
	}
	p.client = made
	return nil
}

func (p *Player) leave() {
	if p.client != nil {
		_ = p.client.Close()
		p.client = nil
	}
}
