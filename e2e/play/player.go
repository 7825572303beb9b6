package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
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
{"challenge": {"type": "mcp", "evidence": "server", "mcp": {"tool_name": "count", "arguments": {"who": "{{ input.who }}"}}}}
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
	t      reporter
	server string        // its address
	lately func() string // the end of the server's log
	l      *Ledger
	points *Points
	name   string
	era    string
	uri    string
	client *client.Client
	wire   *http.Transport

	// unheard: a call on the present run had no reply, or one that does not say where the
	// run stands.
	unheard bool

	// Calling is told of each call just before it is sent; the function that it returns,
	// when its reply has come or failed. nil: nobody is.
	Calling func(call string, run string) (replied func(err error))
	begun   int
}

// reporter is what players need of a test; in a process of their own it is another one.
type reporter interface {
	Errorf(format string, args ...any)
	Failed() bool
}

// NewPlayer returns player i of a protocol. Players alternate between both eras.
func NewPlayer(t *testing.T, s *Server, l *Ledger, p *Points, i int, uri string) *Player {
	return newPlayer(t, s.front(), s.Lately, l, p, i, uri)
}

func newPlayer(t reporter, server string, lately func() string, l *Ledger, p *Points, i int, uri string) *Player {
	return &Player{t: t, server: server, lately: lately, l: l, points: p, name: fmt.Sprintf("p%d", i), uri: uri, era: []string{"2025-11-25", "2026-07-28"}[i%2]}
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
	defer p.Leave()
	for {
		select {
		case <-stop:
			return
		default:
		}
		if p.t.Failed() {
			return
		}
		p.Run()
	}
}

// Run makes one run, however often the server is killed meanwhile.
func (p *Player) Run() {
	p.begun++
	who := fmt.Sprintf("%s-%d", p.name, p.begun)
	open := p.begin(who)
	if open == nil {
		return
	}
	p.onward(p.l.begin(open.RunID, who), open)
}

// onward plays a run that was begun to its end.
func (p *Player) onward(r *Entry, open *api.StepReply) {
	limit := time.Now().Add(4 * time.Minute)
	for time.Now().Before(limit) {
		if solvedAll(open) {
			p.attest(r, open, "success")
			return
		}
		reply := p.next(r, open)
		switch reply.ErrorCode {
		case "":
			p.unheard = false
			p.l.acknowledge(p.t, r, reply)
		case "OUTCOME_UNKNOWN":
			// The call was cut short, so nobody knows: the run ends without it.
			r.unknown()
			p.attest(r, reply, "failure")
			return
		case "NONCE_MISMATCH":
			if p.unheard {
				// A reply was lost that showed a fresh nonce, an answer counted after the call
				// that waited for it, or a save was stored whose outcome was unknown. The run
				// stands where this reply says.
				p.unheard = false
				p.l.resumed(p.t, r, reply)
				break
			}
			p.t.Errorf("run %s: %s: %s", r.id, reply.ErrorCode, reply.Message)
			return
		default:
			r.note(reply.ErrorCode)
			p.unheard = p.unheard || reply.ErrorCode == "WAITING_FOR_USER" || strings.HasPrefix(reply.ErrorCode, "STORE_")
			time.Sleep(20 * time.Millisecond)
			if reply.StepIndex == 0 {
				continue // it says nothing of the step: the same again
			}
		}
		open = reply
	}
	p.t.Errorf("run %s is not finished: %v\n%s", r.id, r.codes(), p.lately())
}

// PlayOn finishes the runs of the ledger that are not finished.
func (p *Player) PlayOn() {
	defer p.Leave()
	for _, r := range p.l.unfinished() {
		open := new(api.StepReply)
		if err := p.call("kairos_begin", map[string]any{"uri": p.uri, "session_id": r.id}, open); err != nil {
			p.t.Errorf("run %s cannot be continued: %v", r.id, err)
			return
		}
		if open.StepIndex > 0 {
			p.l.resumed(p.t, r, open)
			p.onward(r, open)
			continue
		}
		// It ended after the ledger was written.
		ended := new(api.AttestReply)
		err := p.call("kairos_attest", map[string]any{"uri": p.uri, "run_id": r.id, "outcome": "success", "message": "soak"}, ended)
		if err != nil || !ended.AlreadyAttested {
			p.t.Errorf("run %s cannot be continued: %s, nor is it at its end: %+v, %v", r.id, open.Message, ended, err)
			continue
		}
		if !ended.Verified {
			r.unknown()
		}
		r.attested(ended.Verified)
	}
}

// begin opens a run. A run whose begin was not acknowledged is the server's to forget.
func (p *Player) begin(who string) *api.StepReply {
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		reply := new(api.StepReply)
		err := p.call("kairos_begin", map[string]any{"uri": p.uri, "input": map[string]any{"who": who}}, reply)
		switch {
		case err != nil:
			p.Leave()
		case strings.HasPrefix(reply.ErrorCode, "STORE_"): // the database cannot be used at present
		case reply.RunID == "":
			p.t.Errorf("kairos_begin: %+v", reply)
			return nil
		default:
			return reply
		}
	}
	p.t.Errorf("no run can be begun\n%s", p.lately())
	return nil
}

// next submits the solution of the open step until there is a reply: the same again,
// as a network retries, or a fresh look at the run, as a new client takes it.
func (p *Player) next(r *Entry, open *api.StepReply) *api.StepReply {
	var last string
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); {
		reply := new(api.StepReply)
		err := p.call("kairos_next", p.solution(open), reply)
		last = fmt.Sprintf("%s: %s, %v", reply.ErrorCode, reply.Message, err)
		if err == nil && reply.RunID != "" {
			return reply
		}
		p.unheard = true
		p.Leave()
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
	p.t.Errorf("run %s gets no reply: %s\n%s", r.id, last, p.lately())
	return &api.StepReply{RunID: r.id, ErrorCode: "NONCE_MISMATCH", Message: "no reply"}
}

// solution is what the agent sends for the open step.
func (p *Player) solution(open *api.StepReply) map[string]any {
	args := map[string]any{"uri": open.CurrentStep.URI, "run_id": open.RunID, stepOf: open.StepIndex}
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
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		reply := new(api.AttestReply)
		args := map[string]any{"uri": open.CurrentStep.URI, "run_id": r.id, "outcome": outcome, "message": "soak"}
		switch err := p.call("kairos_attest", args, reply); {
		case err != nil:
			p.Leave()
		case !strings.HasPrefix(reply.ErrorCode, "STORE_"):
			r.attested(reply.Verified)
			return
		}
	}
	p.t.Errorf("run %s cannot be attested\n%s", r.id, p.lately())
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
	name, run := callOf(tool, args)
	call.Params.Name, call.Params.Arguments = tool, args
	time.AfterFunc(rand.N(3*time.Millisecond), func() { p.points.At(PointSent) })
	replied := func(error) {}
	if p.Calling != nil {
		replied = p.Calling(name, run)
	}
	res, err := p.client.CallTool(ctx, call)
	replied(err)
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

// callOf names a call for those who watch the player: its tool, and the step that a
// kairos_next is for.
func callOf(tool string, args map[string]any) (name, run string) {
	run, _ = args["run_id"].(string)
	if step, ok := args[stepOf].(int); ok {
		delete(args, stepOf)
		return fmt.Sprintf("%s of step %d", tool, step), run
	}
	return tool, run
}

// stepOf is the argument that says which step a call is for. It is not sent.
const stepOf = "step"

func (p *Player) connect(ctx context.Context) error {
	if p.client != nil {
		return nil
	}
	if p.wire == nil {
		p.wire = http.DefaultTransport.(*http.Transport).Clone()
	}
	link, err := transport.NewStreamableHTTP("http://"+p.server+"/mcp",
		transport.WithHTTPBasicClient(&http.Client{Transport: watched{p.wire, p.points}}), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	made := client.NewClient(link, client.WithElicitationHandler(p), client.WithProtocolVersion(p.era))
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

// Leave ends the connection. The next run makes another one.
func (p *Player) Leave() {
	if p.client != nil {
		_ = p.client.Close()
		p.wire.CloseIdleConnections()
		p.client = nil
	}
}
