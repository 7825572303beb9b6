package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// person answers forms; model answers prompts.
type person struct{}

func (person) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"ok": true},
	}}, nil
}

type model struct{}

func (model) CreateMessage(context.Context, mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	return &mcp.CreateMessageResult{
		SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent("42")},
		Model:           "m",
	}, nil
}

func connect(t *testing.T, d *fakeDirector, version string, options ...client.ClientOption) *client.Client {
	t.Helper()
	in, out := serve(t, config(), d)
	c := client.NewClient(
		transport.NewIO(out, in, io.NopCloser(strings.NewReader(""))),
		append(options, client.WithProtocolVersion(version))...)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_, err := c.Initialize(t.Context(), mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: version, ClientInfo: mcp.Implementation{Name: "lib", Version: "1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func callTool(t *testing.T, c *client.Client, tool string, args any) *mcp.CallToolResult {
	t.Helper()
	res, err := c.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}})
	if err != nil {
		t.Fatal(err)
	}
	fitsOutputSchema(t, tool, replyOf(res))
	return res
}

// replyOf is the reply as text, which clients of every version get.
func replyOf(res *mcp.CallToolResult) json.RawMessage {
	text, _ := res.Content[0].(mcp.TextContent)
	return json.RawMessage(text.Text)
}

func TestRealClientsInEveryEra(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			d := newDirector(elicit("sure?"), sample("how much?"))
			c := connect(t, d, version,
				client.WithElicitationHandler(person{}),
				client.WithSamplingHandler(model{}))
			res := callTool(t, c, "kairos_begin", beginArgs)
			got := decode[step](t, replyOf(res))
			if len(got.Solved) != 2 || !strings.Contains(string(got.Solved[1].Output), "42") {
				t.Errorf("solved = %+v, want the person's and the model's answer", got.Solved)
			}
			if era := d.lastClient().Era; era != version {
				t.Errorf("era = %s, want %s", era, version)
			}
			if _, err := c.ListTools(t.Context(), mcp.ListToolsRequest{}); err != nil {
				t.Errorf("ListTools = %v", err)
			}
		})
	}
}
