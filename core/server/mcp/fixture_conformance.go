//go:build conformance

package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// NewFixture returns a server with the tools, resources and prompts that the
// official conformance suite calls, instead of ours. Everything between its
// HTTP endpoint and these is what serves KAIROS: the transports, the sessions, the
// checks of arguments, the exchange of questions, the sealed requestState.
func NewFixture(cfg Config, log *slog.Logger) (*Server, error) {
	s, err := New(cfg, scripted{}, log)
	if err != nil {
		return nil, err
	}
	s.mcp.DeleteTools(toolset.Names()...)
	for _, g := range guides {
		s.mcp.DeleteResources(guidePrefix + g.file)
	}
	s.mcp.DeletePrompts(promptName)
	f := fixture{s.mcp, s.tools}
	f.addTools()
	f.addResources()
	f.addPrompts()
	return s, nil
}

// fixture adds what the conformance suite calls to a server.
type fixture struct {
	mcp   *server.MCPServer
	tools *tools
}

// Small files, in base64.
const (
	redPixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	silence  = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
)

// jsonSchemaTool is the schema of a tool that is only listed.
const jsonSchemaTool = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},
"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`

func (f fixture) addTools() {
	f.tool("test_simple_text", "", says(mcp.NewTextContent("This is a simple text response for testing.")))
	f.tool("test_image_content", "", says(mcp.NewImageContent(redPixel, "image/png")))
	f.tool("test_audio_content", "", says(mcp.NewAudioContent(silence, "audio/wav")))
	f.tool("test_embedded_resource", "", says(embedded("test://embedded-resource", "text/plain",
		"This is an embedded resource content.")))
	f.tool("test_multiple_content_types", "", says(mcp.NewTextContent("Multiple content types test:"),
		mcp.NewImageContent(redPixel, "image/png"),
		embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)))
	f.tool("test_logging_tool", "", f.withLogging)
	f.tool("test_tool_with_logging", "", f.withLogging)
	f.tool("json_schema_2020_12_tool", jsonSchemaTool, says(mcp.NewTextContent("The arguments fit.")))
	f.tool("test_error_handling", "", func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return failed(ctx, f.tools.clientLog.log, req, fault.New(fault.InvalidArgument, "This tool intentionally returns an error for testing"))
	})
	f.tool("test_tool_with_progress", "", f.withProgress)
	f.tool("test_missing_capability", "", f.needsSampling)
	for name, script := range scripts {
		f.tool(name, script.schema, func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return f.tools.exchange.run(ctx, req, func(context.Context, access.Caller) (director.Round, error) {
				var args map[string]any
				if err := json.Unmarshal(object(req.Params.RawArguments), &args); err != nil {
					return director.Round{}, err
				}
				return script.round(run.ID(name+"/"+rand.Text()), 1, args)
			})
		})
	}
}

// tool serves a tool as the real ones are served.
func (f fixture) tool(name, schema string, h handler) {
	if schema == "" {
		schema = `{"type":"object"}`
	}
	tool := mcp.Tool{Name: name, Description: "A tool of the conformance suite", RawInputSchema: json.RawMessage(schema)}
	f.tools.checks[name] = func() (inputCheck, error) { return newInputCheck(name, []byte(schema)) }
	f.tools.add(tool, h)
}

func says(content ...mcp.Content) handler {
	return func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: content}, nil
	}
}

func embedded(uri, kind, text string) mcp.EmbeddedResource {
	return mcp.NewEmbeddedResource(mcp.TextResourceContents{URI: uri, MIMEType: kind, Text: text})
}

// withLogging says three things, to a client that has asked to hear them.
func (f fixture) withLogging(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for _, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		f.tools.clientLog.say(ctx, mcp.LoggingLevelInfo, text)
	}
	return mcp.NewToolResultText("done"), nil
}

// withProgress sends notes the way that a waiting call does. A modern call has
// no such way, because it never waits for its client: there they go by mcp-go.
func (f fixture) withProgress(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token := progressToken(req)
	for i := range 3 {
		if token == nil {
			break
		}
		params := map[string]any{"progressToken": token, "progress": 50 * i, "total": 100}
		notify := func() error { return f.mcp.SendNotificationToClient(ctx, "notifications/progress", params) }
		if from := originOf(ctx); from.peer != nil {
			notify = func() error { return from.peer.notify("notifications/progress", params) }
		}
		if err := notify(); err != nil {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return mcp.NewToolResultText("done"), nil
}

// needsSampling cannot do without what the client has not declared.
func (f fixture) needsSampling(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if f.tools.callers.of(ctx, req).Client.Sampling {
		return mcp.NewToolResultText("The client can sample."), nil
	}
	noteFrom(ctx).data = map[string]any{"requiredCapabilities": map[string]any{"sampling": map[string]any{}}}
	return nil, &rpcError{code: mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, message: "the client has not declared sampling"}
}

// script is what a tool asks its client, one question a round.
type script struct {
	schema string
	asks   []scriptedAsk
	done   string // the message at the end
}

type scriptedAsk struct {
	method string
	// params are those of the request; %s in them is the argument of that name.
	params, argument string
}

func elicit(message, properties, required string) scriptedAsk {
	return scriptedAsk{method: string(mcp.MethodElicitationCreate), params: fmt.Sprintf(
		`{"message":%q,"requestedSchema":{"type":"object","properties":%s,"required":%s}}`, message, properties, required)}
}

func sample(prompt string) scriptedAsk {
	return scriptedAsk{method: string(mcp.MethodSamplingCreateMessage), params: fmt.Sprintf(
		`{"messages":[{"role":"user","content":{"type":"text","text":%q}}],"maxTokens":100}`, prompt)}
}

var roots = scriptedAsk{method: string(mcp.MethodListRoots), params: `{}`}

func askName(message string) scriptedAsk {
	return elicit(message, `{"name":{"type":"string"}}`, `["name"]`)
}

func confirm() scriptedAsk { return elicit("Please confirm", `{"ok":{"type":"boolean"}}`, `["ok"]`) }

var scripts = map[string]script{
	"test_sampling": {
		schema: `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`,
		asks: []scriptedAsk{{method: string(mcp.MethodSamplingCreateMessage), argument: "prompt",
			params: `{"messages":[{"role":"user","content":{"type":"text","text":%s}}],"maxTokens":100}`}},
	},
	"test_elicitation": {
		schema: `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
		asks: []scriptedAsk{{method: string(mcp.MethodElicitationCreate), argument: "message",
			params: `{"message":%s,"requestedSchema":{"type":"object","properties":{` +
				`"username":{"type":"string","description":"User's response"},` +
				`"email":{"type":"string","description":"User's email address"}},"required":["username","email"]}}`}},
	},
	"test_elicitation_sep1034_defaults": {asks: []scriptedAsk{elicit("Please review the defaults", `{`+
		`"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},`+
		`"score":{"type":"number","default":95.5},"verified":{"type":"boolean","default":true},`+
		`"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"}}`, `[]`)}},
	"test_elicitation_sep1330_enums": {asks: []scriptedAsk{elicit("Please choose", `{`+
		`"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},`+
		`"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"}]},`+
		`"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},`+
		`"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},`+
		`"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"}]}}}`,
		`[]`)}},
	"test_streaming_elicitation":                {asks: []scriptedAsk{askName("What is your name?")}},
	"test_input_required_result_elicitation":    {asks: []scriptedAsk{askName("What is your name?")}},
	"test_input_required_result_sampling":       {asks: []scriptedAsk{sample("What is the capital of France?")}},
	"test_input_required_result_list_roots":     {asks: []scriptedAsk{roots}},
	"test_input_required_result_tampered_state": {asks: []scriptedAsk{confirm()}},
	"test_input_required_result_request_state":  {asks: []scriptedAsk{confirm()}, done: "state-ok"},
	"test_input_required_result_capabilities":   {asks: []scriptedAsk{askName("Who?"), sample("Who?")}},
	"test_input_required_result_multi_round": {asks: []scriptedAsk{
		askName("Step 1: What is your name?"),
		elicit("Step 2: What is your favorite color?", `{"color":{"type":"string"}}`, `["color"]`),
	}},
}

// round asks the question with that seq, which counts from 1, or ends the script.
func (s script) round(id run.ID, seq int64, args map[string]any) (director.Round, error) {
	if int(seq) > len(s.asks) {
		return director.Round{Reply: &api.StepReply{Message: s.done}}, nil
	}
	a := s.asks[seq-1]
	params := a.params
	if a.argument != "" {
		text, err := json.Marshal(args[a.argument])
		if err != nil {
			return director.Round{}, err
		}
		params = fmt.Sprintf(params, text)
	}
	needs, err := driver.Descriptor{}.Demands(driver.ClientRequest{Method: a.method, Params: json.RawMessage(params)})
	if err != nil {
		return director.Round{}, err
	}
	return director.Round{Ask: &director.Ask{
		Run: id, Seq: seq, Method: a.method, Params: json.RawMessage(params), Needs: needs, Wait: 10 * time.Second,
	}}, nil
}

// scripted is the engine behind the scripts. The run says which script it is
// of, so that nothing is kept between rounds.
type scripted struct{ Engine }

func (scripted) Continue(_ context.Context, _ access.Caller, in director.Continuation) (director.Round, error) {
	name, _, _ := strings.Cut(string(in.Run), "/")
	s, ok := scripts[name]
	if !ok {
		return director.Round{}, fault.New(fault.NotFound, "no script %q", name)
	}
	if in.Error != nil && int(in.Seq) == len(s.asks) {
		return director.Round{}, fault.New(fault.ElicitationFailed, "The client did not answer: %s", in.Error.Message)
	}
	round, err := s.round(in.Run, in.Seq+1, nil)
	if round.Reply != nil {
		round.Reply.Message = strings.TrimSpace(s.done + " " + string(in.Result))
	}
	return round, err
}

func (scripted) Waiting(context.Context, access.Caller, run.ID, int64) (api.StepReply, error) {
	return api.StepReply{}, fault.New(fault.WaitingForUser, "The client has not answered in time.")
}

// Unfinished finds none: a script keeps nothing.
func (scripted) Unfinished(context.Context, access.Caller) (*director.Unfinished, error) {
	return nil, nil
}

// Prompts lists none besides those of the fixture.
func (scripted) Prompts(context.Context, access.Caller, ...string) ([]api.Prompt, error) {
	return nil, nil
}

func (f fixture) addResources() {
	text := func(uri, kind, body string) {
		f.mcp.AddResource(mcp.NewResource(uri, uri, mcp.WithMIMEType(kind), mcp.WithResourceDescription("A test resource")),
			func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: kind, Text: body}}, nil
			})
	}
	text("test://static-text", "text/plain", "This is the content of the static text resource.")
	text("test://watched-resource", "text/plain", "Nobody watches.")
	const binary = "test://static-binary"
	f.mcp.AddResource(mcp.NewResource(binary, binary, mcp.WithMIMEType("image/png"), mcp.WithResourceDescription("A test resource")),
		func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.BlobResourceContents{URI: binary, MIMEType: "image/png", Blob: redPixel}}, nil
		})
	f.mcp.AddResourceTemplate(mcp.NewResourceTemplate("test://template/{id}/data", "template"),
		func(_ context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(req.Params.URI, "test://template/"), "/data")
			body := fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id, id)
			return []mcp.ResourceContents{
				mcp.TextResourceContents{URI: req.Params.URI, MIMEType: "application/json", Text: body},
			}, nil
		})
}

func (f fixture) addPrompts() {
	add := func(name string, messages func(args map[string]string) []mcp.Content, arguments ...string) {
		options := []mcp.PromptOption{mcp.WithPromptDescription("A prompt of the conformance suite")}
		for _, a := range arguments {
			options = append(options, mcp.WithArgument(a, mcp.RequiredArgument()))
		}
		f.mcp.AddPrompt(mcp.NewPrompt(name, options...),
			func(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				res := &mcp.GetPromptResult{}
				for _, c := range messages(req.Params.Arguments) {
					res.Messages = append(res.Messages, mcp.NewPromptMessage(mcp.RoleUser, c))
				}
				return res, nil
			})
	}
	add("test_simple_prompt", func(map[string]string) []mcp.Content {
		return []mcp.Content{mcp.NewTextContent("This is a simple prompt for testing.")}
	})
	add("test_prompt_with_arguments", func(args map[string]string) []mcp.Content {
		return []mcp.Content{mcp.NewTextContent(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"]))}
	}, "arg1", "arg2")
	add("test_prompt_with_embedded_resource", func(args map[string]string) []mcp.Content {
		return []mcp.Content{
			embedded(args["resourceUri"], "text/plain", "Embedded resource content for testing."),
			mcp.NewTextContent("Please process the embedded resource above."),
		}
	}, "resourceUri")
	add("test_prompt_with_image", func(map[string]string) []mcp.Content {
		return []mcp.Content{mcp.NewImageContent(redPixel, "image/png"), mcp.NewTextContent("Please analyze the image above.")}
	})
}
