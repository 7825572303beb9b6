package terminal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// The test binary is also the servers that the tests play against: started
// with one of these variables it serves MCP over stdio and exits.
const (
	directorEnv = "TERMHOST_TEST_DIRECTOR" // JSON of a scene
	toolsEnv    = "TERMHOST_TEST_TOOLS"    // anything, or one of these:
	toolsHang   = "hang"                   // reads and never answers
	toolsExit   = "exit"                   // ends at once
)

// scene is what the director plays: a server that behaves on the wire as
// KAIROS does, with steps that are fixed here instead of stored.
type scene struct {
	Steps []act
	// WaitFirst answers the first submission with WAITING_FOR_USER.
	WaitFirst bool
	// Late does so while the form is still being filled in (2025 only).
	Late bool
}

// act is one step. The server asks the client where it can; otherwise the agent
// has to do the work.
type act struct {
	Type, Name  string
	Description string
	Display     json.RawMessage
	// AskForm, AskModel: the question, if the server asks one.
	AskForm, AskModel string
	Schema            json.RawMessage // of the form
	Approval          string          // metadata of the prompt
	// Page is the address where a person answers, which they do at once.
	Page string
	// Looks is what the server sees each time that it does the step itself, the last
	// again and again; empty: it does not.
	Looks []string
	// Takes is how many milliseconds that lasts.
	Takes int
	// Passes: an answer with this text in it is accepted.
	Passes string
}

type director struct {
	scene
	mu       sync.Mutex
	step     int // index of the open one
	failures int
	waited   bool
	solved   []map[string]any
	asked    int
	looked   int
	shown    bool                        // the person was given the page's address was given to the agent
	late     chan *mcp.ElicitationResult // the answer to the form, when it comes
}

func serveForTests() bool {
	if raw, ok := os.LookupEnv(directorEnv); ok {
		d := &director{}
		if err := json.Unmarshal([]byte(raw), &d.scene); err != nil {
			panic(err)
		}
		serve(d.server())
		return true
	}
	if says, ok := os.LookupEnv(toolsEnv); ok {
		switch says {
		case toolsHang:
			_, _ = io.Copy(io.Discard, os.Stdin) // until the client gives up
			return true
		case toolsExit:
			os.Exit(3)
		}
		fmt.Fprint(os.Stderr, strings.TrimPrefix(says, "1"))
		serve(toolServer())
		return true
	}
	return false
}

func serve(s *server.MCPServer) {
	if err := server.NewStdioServer(s).Listen(context.Background(), io.TeeReader(os.Stdin, &received), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const headURI = "kairos://mem/11111111-1111-4111-8111-111111111111"

func (d *director) server() *server.MCPServer {
	s := server.NewMCPServer("director", "1")
	add := func(name, schema string, handle server.ToolHandlerFunc) {
		s.AddTool(mcp.NewToolWithRawSchema(name, "test", json.RawMessage(schema)), handle)
	}
	open := `{"type":"object","properties":{"uri":{},"run_id":{},"solution":{},"input":{}}}`
	add("kairos_mint", open, d.mint)
	add("kairos_search", open, d.search)
	add("kairos_begin", open, func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if len(d.Steps) > 0 && d.Steps[0].AskModel != "" {
			return d.drive(ctx, s, req, false)
		}
		return d.reply("", ""), nil
	})
	add("kairos_next", open, func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return d.next(ctx, s, req)
	})
	add("kairos_dump", open, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return object(map[string]any{"challenge": map[string]any{"type": d.Steps[0].Type}}), nil
	})
	add("kairos_attest", open, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return object(map[string]any{"verified": d.step == len(d.Steps), "total_rated": len(d.Steps)}), nil
	})
	return s
}

func object(v any) *mcp.CallToolResult {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return mcp.NewToolResultStructured(json.RawMessage(raw), string(raw))
}

func (d *director) mint(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if !strings.HasPrefix(req.GetString("markdown_doc", ""), "# ") || !req.GetBool("force_update", false) {
		res := object(map[string]any{"error": "INVALID_ARGUMENT", "message": "no title"})
		res.IsError = true
		return res, nil
	}
	return object(map[string]any{"status": "stored", "items": []any{map[string]any{"uri": headURI}}}), nil
}

func (d *director) search(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	help := map[string]any{"uri": strings.Replace(headURI, "1111", "2222", 1), "role": "create", "chain_label": nil}
	confidence, choices := "none", []any{help}
	switch req.GetString("query", "") {
	case "scene":
		confidence, choices = "sure", []any{map[string]any{"uri": headURI, "role": "match", "chain_label": "The scene"}, help}
	case "a place":
		confidence, choices = "perhaps", []any{map[string]any{"uri": headURI, "role": "match", "chain_label": "The scene"}, help}
	}
	return object(map[string]any{"confidence": confidence, "choices": choices}), nil
}

func (d *director) nonce() string { return fmt.Sprintf("nonce-%d", d.step) }

// reply shows the open step.
func (d *director) reply(code, message string) *mcp.CallToolResult {
	return object(d.replied(code, message))
}

func (d *director) replied(code, message string) map[string]any {
	r := map[string]any{
		"must_obey": d.failures < 3, "run_id": "run-1", "solved": d.solved, "message": message,
		"next_action": "finish", "next_call": nextCall("kairos_attest", nil), "challenge": map[string]any{},
	}
	if code != "" {
		r["error_code"] = code
	}
	if d.step < len(d.Steps) {
		a := d.Steps[d.step]
		r["step_index"], r["step_count"] = d.step+1, len(d.Steps)
		r["current_step"] = map[string]any{"uri": headURI, "content": "## " + a.Name + "\n\nThe text of " + a.Name}
		r["challenge"] = map[string]any{
			"type": a.Type, "description": a.Description, "nonce": d.nonce(), "proof_hash": "hash", a.Type: a.Display,
		}
		r["next_action"] = "continue"
		solution := map[string]any{"type": a.Type, "nonce": d.nonce(), "proof_hash": "hash"}
		if len(a.Looks) > 0 {
			delete(solution, "proof_hash")
		}
		r["next_call"] = nextCall("kairos_next", solution)
	}
	return r
}

func nextCall(tool string, solution map[string]any) map[string]any {
	return map[string]any{"tool": tool, "arguments": map[string]any{"uri": headURI, "solution": solution}}
}

func (d *director) next(ctx context.Context, s *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	solution, _ := req.GetArguments()["solution"].(map[string]any)
	named := req.GetArguments()["run_id"] == "run-1" && solution["nonce"] == d.nonce() && solution["proof_hash"] == "hash"
	if placeholder := len(solution) == 1 && d.step == 0; !named && !placeholder {
		return d.reply("NONCE_MISMATCH", fmt.Sprint(solution)), nil
	}
	if d.WaitFirst && !d.waited {
		d.waited = true
		return d.reply("WAITING_FOR_USER", "still asking"), nil
	}
	a := d.Steps[d.step]
	work, given := solution[a.Type]
	if !given {
		work, given = solution["evidence"]
	}
	if !given {
		return d.drive(ctx, s, req, true)
	}
	raw, err := json.Marshal(work)
	if err != nil {
		return nil, err
	}
	if strings.Contains(string(raw), `"confirmation":"rejected"`) {
		return d.reply("USER_DECLINED", "the person declined"), nil
	}
	return d.judge(string(raw), "agent"), nil
}

func (d *director) judge(answer, via string) *mcp.CallToolResult {
	a := d.Steps[d.step]
	if !strings.Contains(answer, a.Passes) {
		if d.failures++; d.failures >= 3 {
			return d.reply("MAX_RETRIES_EXCEEDED", "three times wrong")
		}
		return d.reply("COMMAND_FAILED", "not what was asked for: "+answer)
	}
	d.solved = append(d.solved, map[string]any{
		"step_index": d.step + 1, "label": a.Name, "driver": a.Type, "via": via, "provenance": "test", "output": answer,
		"proof_hash": fmt.Sprintf("proof-%d", d.step),
	})
	d.step, d.failures, d.asked = d.step+1, 0, 0
	return d.reply("", "")
}

// drive asks the client, if it can be asked.
func (d *director) drive(ctx context.Context, s *server.MCPServer, req mcp.CallToolRequest, locked bool) (*mcp.CallToolResult, error) {
	if !locked {
		d.mu.Lock()
		defer d.mu.Unlock()
	}
	a, capabilities := d.Steps[d.step], clientCapabilities(ctx)
	switch {
	case a.Page != "":
		return d.askAtPage(ctx, s, req, a)
	case a.AskForm != "" && capabilities.Elicitation != nil:
		return d.askForm(ctx, s, req, a)
	case a.AskModel != "" && capabilities.Sampling != nil:
		return d.askModel(ctx, s, req, a)
	case len(a.Looks) > 0:
		return d.look(ctx), nil
	}
	return d.reply("MISSING_FIELD", "Solution needed"), nil
}

// look does the step, as the server itself.
func (d *director) look(ctx context.Context) *mcp.CallToolResult {
	seen := d.Steps[d.step].Looks
	d.looked++
	select { // a server that takes long
	case <-time.After(time.Duration(d.Steps[d.step].Takes) * time.Millisecond):
	case <-ctx.Done():
	}
	return d.judge(seen[min(d.looked, len(seen))-1], "tools")
}

func clientCapabilities(ctx context.Context) mcp.ClientCapabilities {
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.ClientCapabilities != nil {
		return *info.ClientCapabilities
	}
	if session, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok {
		return session.GetClientCapabilities()
	}
	return mcp.ClientCapabilities{}
}

func (d *director) askForm(ctx context.Context, s *server.MCPServer, req mcp.CallToolRequest, a act) (*mcp.CallToolResult, error) {
	params := mcp.ElicitationParams{Message: a.AskForm, RequestedSchema: a.Schema}
	var res *mcp.ElicitationResult
	switch {
	case server.IsModernRequest(ctx):
		if res = server.ElicitationResponse(req.Params.InputResponses, "q"); res == nil {
			return server.NewInputRequestBuilder("state").Elicit("q", params).ToolResult(), nil
		}
	case d.Late && d.late == nil:
		late := make(chan *mcp.ElicitationResult, 1)
		d.late = late
		go func() {
			answer, err := s.RequestElicitation(context.WithoutCancel(ctx), mcp.ElicitationRequest{Params: params})
			if err == nil {
				late <- answer
			}
		}()
		return d.reply("WAITING_FOR_USER", "asking"), nil
	case d.Late:
		res = <-d.late
	default:
		var err error
		if res, err = s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: params}); err != nil {
			return d.reply("MISSING_FIELD", err.Error()), nil
		}
	}
	if res.Action == mcp.ElicitationResponseActionCancel {
		return d.reply("WAITING_FOR_USER", "dismissed"), nil
	}
	if res.Action != mcp.ElicitationResponseActionAccept {
		return d.reply("USER_DECLINED", string(res.Action)), nil
	}
	raw, err := json.Marshal(res.Content)
	if err != nil {
		return nil, err
	}
	if len(a.Looks) > 0 && strings.Contains(string(raw), `"approved"`) {
		return d.look(ctx), nil
	}
	return d.judge(string(raw), "elicitation"), nil
}

// askAtPage sends the person to an address: by the client, if it opens any,
// else by the agent.
func (d *director) askAtPage(ctx context.Context, s *server.MCPServer, req mcp.CallToolRequest, a act) (*mcp.CallToolResult, error) {
	elicits := clientCapabilities(ctx).Elicitation
	params := mcp.ElicitationParams{Mode: mcp.ElicitationModeURL, Message: a.Description, URL: a.Page, ElicitationID: "e-1"}
	var res *mcp.ElicitationResult
	switch {
	case d.shown: // the second call
		if elicits != nil && elicits.URL != nil {
			if err := s.SendNotificationToClient(ctx, "notifications/elicitation/complete", map[string]any{"elicitationId": "e-1"}); err != nil {
				return nil, err
			}
		}
		return d.judge("done", "page"), nil
	case elicits == nil || elicits.URL == nil:
		d.shown = true
		return d.waiting(a), nil
	case server.IsModernRequest(ctx):
		if res = server.ElicitationResponse(req.Params.InputResponses, "q"); res == nil {
			return server.NewInputRequestBuilder("state").Elicit("q", params).ToolResult(), nil
		}
	default:
		var err error
		if res, err = s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: params}); err != nil {
			return d.reply("MISSING_FIELD", err.Error()), nil
		}
		if res.Action == mcp.ElicitationResponseActionAccept {
			d.shown = true // one call may hold no longer: the client comes again, and is not asked again
			return d.waiting(a), nil
		}
	}
	if res.Action == mcp.ElicitationResponseActionCancel {
		return d.reply("WAITING_FOR_USER", "dismissed"), nil
	}
	if res.Action != mcp.ElicitationResponseActionAccept {
		return d.reply("USER_DECLINED", string(res.Action)), nil
	}
	return d.judge("done", "page"), nil
}

func (d *director) waiting(a act) *mcp.CallToolResult {
	r := d.replied("WAITING_FOR_USER", "")
	r["approval_url"] = a.Page
	r["next_action"] = "the person answers elsewhere"
	return object(r)
}

func (d *director) askModel(ctx context.Context, s *server.MCPServer, req mcp.CallToolRequest, a act) (*mcp.CallToolResult, error) {
	params := mcp.CreateMessageParams{
		SystemPrompt: "You solve one step.", MaxTokens: 100, Temperature: 0.2,
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(a.AskModel)}},
		Metadata: map[string]any{"approval": a.Approval, "top_p": 0.9},
	}
	var res *mcp.CreateMessageResult
	if server.IsModernRequest(ctx) {
		if res = server.SamplingResponse(req.Params.InputResponses, "q"); res == nil {
			// Asked twice without an answer: the client does not want to.
			if d.asked++; d.asked > 2 {
				return d.reply("MISSING_FIELD", "abandoned"), nil
			}
			return server.NewInputRequestBuilder("state").Sample("q", params).ToolResult(), nil
		}
	} else {
		var err error
		//nolint:staticcheck // deprecated with the stateless era; this is the client of the era before
		if res, err = s.RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: params}); err != nil {
			return d.reply("MISSING_FIELD", err.Error()), nil
		}
	}
	d.asked = 0
	content, err := mcp.ParseSamplingContent(res.Content)
	if err != nil {
		return nil, err
	}
	text := content.(mcp.TextContent).Text
	if !json.Valid([]byte(text)) {
		return d.reply("MISSING_FIELD", "the model answered prose"), nil
	}
	return d.judge(text, "sampling"), nil
}

// toolServer has the tools that the agent calls.
// received is the last message to the server as it was written.
var received lastLine

// lastLine keeps what was written last; messages are written one by one.
type lastLine struct{ line []byte }

func (l *lastLine) Write(p []byte) (int, error) {
	l.line = bytes.Clone(p)
	return len(p), nil
}

func toolServer() *server.MCPServer {
	s := server.NewMCPServer("tools", "1")
	readOnly := true
	look := mcp.NewToolWithRawSchema("look", "echoes", json.RawMessage(`{"type":"object","properties":{"names":{"type":"array"}}}`))
	look.Annotations.ReadOnlyHint = &readOnly
	s.AddTool(look, func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return object(map[string]any{"looked": req.GetArguments()}), nil
	})
	s.AddTool(mcp.NewToolWithRawSchema("book", "fails on demand", json.RawMessage(`{"type":"object"}`)),
		func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return object(map[string]any{"success": req.GetBool("ok", false), "booked": req.GetArguments()}), nil
		})
	order := mcp.NewToolWithRawSchema("order", "takes an order", json.RawMessage(`{"type":"object","required":["who","count","where","note"],"properties":{
		"who":{"type":"array","items":{"type":"string"},"minItems":1},"count":{"type":"integer","maximum":5},
		"where":{"description":"the place","type":["array","object"]},"note":{"type":"string"},"never":{"type":"string"}}}`))
	s.AddTool(order, func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return object(map[string]any{"ordered": req.GetArguments()}), nil
	})
	s.AddTool(mcp.NewToolWithRawSchema("number", "one argument", json.RawMessage(`{"type":"object","required":["id"],"properties":{
		"id":{"type":"integer","default":2000000}}}`)),
		func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return object(map[string]any{"id": json.RawMessage("9007199254740995"), "received": string(received.line)}), nil
		})
	s.AddTool(mcp.NewToolWithRawSchema("crash", "ends the server", json.RawMessage(`{"type":"object"}`)),
		func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { os.Exit(3); return nil, nil })
	s.AddTool(mcp.NewToolWithRawSchema("wait", "never answers", json.RawMessage(`{"type":"object"}`)),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	s.AddTool(mcp.NewToolWithRawSchema("environment", "names of its variables", json.RawMessage(`{"type":"object"}`)),
		func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return object(map[string]any{"environment": os.Environ()}), nil
		})
	return s
}
