package drivers_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// A type of a third party reaches agents: solution.type lists it, the demand is
// shown in challenge.<type>, and the answer goes into solution.evidence.
func TestAnAgentSolvesAStepOfANewType(t *testing.T) {
	e := examples[len(examples)-1] // word-count
	requireBuilt(t, e)
	c := agent(t, "--db", filepath.Join(t.TempDir(), "kairos.db"))
	if types := solutionTypes(t, c); !slices.Contains(types, e.driver) {
		t.Errorf("solution.type lists %v, want %s among them", types, e.driver)
	}

	document := readFile(t, filepath.Join(e.folder, "protocol.md"))
	stored := call(t, c, "kairos_mint", map[string]any{"markdown_doc": string(document), "llm_model_id": "test"})
	begun := call(t, c, "kairos_begin", map[string]any{"uri": stored.Items[0].URI})
	demand, _ := begun.Challenge[e.driver].(map[string]any)
	if begun.Challenge["type"] != e.driver || demand["min"] != 8.0 || demand["max"] != 30.0 {
		t.Fatalf("challenge = %v, want the demand in challenge.%s", begun.Challenge, e.driver)
	}

	submit := func(at reply, text string) reply {
		return call(t, c, "kairos_next", map[string]any{"uri": at.CurrentStep.URI, "solution": map[string]any{
			"type": e.driver, "nonce": at.Challenge["nonce"], "proof_hash": at.Challenge["proof_hash"],
			"evidence": map[string]any{"text": text},
		}})
	}
	refused := submit(begun, "The mail relay is down.")
	if refused.ErrorCode != "word_count.TOO_FEW_WORDS" || refused.CurrentStep.URI != begun.CurrentStep.URI {
		t.Fatalf("a text of 5 words: %+v, want TOO_FEW_WORDS at the same step", refused)
	}
	next := submit(refused, "The mail relay is down on Sunday from nine to ten.")
	if next.ErrorCode != "" || next.CurrentStep.URI == begun.CurrentStep.URI {
		t.Errorf("a text of 11 words: %+v, want the next step", next)
	}
}

// Two runs of one protocol ask the same question in the folder. One answer is there,
// so exactly one of them continues.
func TestOneAnswerInTheFolderSolvesOneOfTwoRuns(t *testing.T) {
	at := slices.IndexFunc(examples, func(e example) bool { return e.folder == "ask-folder" })
	requireBuilt(t, examples[at])
	desk := filepath.Join(t.TempDir(), "desk")
	c := agent(t, append(asksInFolder(t, desk), "--db", filepath.Join(t.TempDir(), "kairos.db"))...)
	document := readFile(t, filepath.Join("ask-folder", "protocol.md"))
	uri := call(t, c, "kairos_mint", map[string]any{"markdown_doc": string(document), "llm_model_id": "test"}).Items[0].URI

	waiting := func(begun reply) reply {
		now := call(t, c, "kairos_next", begun.NextCall.Arguments)
		if now.ErrorCode != "WAITING_FOR_DRIVER" || len(now.Solved) > 0 {
			t.Fatalf("before there is an answer: %+v, want WAITING_FOR_DRIVER", now)
		}
		return now
	}
	first := waiting(call(t, c, "kairos_begin", map[string]any{"uri": uri}))
	asked := questions(t, desk)
	second := waiting(call(t, c, "kairos_begin", map[string]any{"uri": uri}))
	if both := questions(t, desk); len(asked) != 1 || len(both) != 2 {
		t.Fatalf("the requests are %q and then %q, want one of each run", asked, both)
	}

	answer(t, desk, asked[0], "Yes: the tests are green.")
	deadline := time.Now().Add(time.Minute)
	for len(first.Solved) == 0 && time.Now().Before(deadline) {
		first, second = call(t, c, "kairos_next", first.NextCall.Arguments), waiting(second)
	}
	if len(first.Solved) != 1 || first.Solved[0].Via != "ask_folder" || first.Solved[0].Provenance != "link-holder" {
		t.Errorf("the run that was answered: %+v, want its step solved through the folder", first)
	}
	waiting(second)
}

// reply is what the tools answer, as far as it is looked at here.
type reply struct {
	Items []struct {
		URI string `json:"uri"`
	} `json:"items"`
	CurrentStep struct {
		URI string `json:"uri"`
	} `json:"current_step"`
	Challenge map[string]any `json:"challenge"`
	ErrorCode string         `json:"error_code"`
	Solved    []struct {
		Via        string `json:"via"`
		Provenance string `json:"provenance"`
	} `json:"solved"`
	NextCall struct {
		Arguments map[string]any `json:"arguments"`
	} `json:"next_call"`
}

// agent is a client, of a server with the flags, that cannot be asked anything.
func agent(t *testing.T, flags ...string) *client.Client {
	t.Helper()
	c := client.NewClient(transport.NewStdio(program(t), environment(t), append([]string{"serve"}, flags...)...))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	var init mcp.InitializeRequest
	init.Params.ClientInfo = mcp.Implementation{Name: "agent", Version: "1"}
	init.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	if _, err := c.Initialize(t.Context(), init); err != nil {
		t.Fatal(err)
	}
	return c
}

func solutionTypes(t *testing.T, c *client.Client) []string {
	t.Helper()
	tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(tools.Tools, func(tool mcp.Tool) bool { return tool.Name == "kairos_next" })
	raw, err := json.Marshal(tools.Tools[at].InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Solution struct {
				Properties struct {
					Type struct{ Enum []string }
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	return schema.Properties.Solution.Properties.Type.Enum
}

func call(t *testing.T, c *client.Client, tool string, arguments map[string]any) reply {
	t.Helper()
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = tool, arguments
	res, err := c.CallTool(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := mcp.AsTextContent(res.Content[0])
	if !ok {
		t.Fatalf("%s: %+v, want text", tool, res)
	}
	var out reply
	if err := json.Unmarshal([]byte(text.Text), &out); err != nil {
		t.Fatalf("%s: %v: %s", tool, err, text.Text)
	}
	return out
}
