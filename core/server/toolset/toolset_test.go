package toolset_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// recorder keeps the requests of the calls that the test makes.
type recorder struct {
	toolset.Engine

	next   api.NextRequest
	delete []string
}

func (r *recorder) Next(_ context.Context, _ access.Caller, in api.NextRequest) (director.Round, error) {
	r.next = in
	return director.Round{Reply: &api.StepReply{}}, nil
}

func (r *recorder) Delete(_ context.Context, _ access.Caller, in api.DeleteRequest) (api.DeleteReply, error) {
	r.delete = in.URIs
	return api.DeleteReply{TotalDeleted: len(in.URIs)}, nil
}

func tool(t *testing.T, name string) toolset.Tool {
	t.Helper()
	for _, row := range toolset.Table {
		if row.Name == name {
			return row
		}
	}
	t.Fatalf("no tool %s", name)
	return toolset.Tool{}
}

func TestEveryRowIsWhole(t *testing.T) {
	names := map[string]bool{}
	for _, row := range toolset.Table {
		if names[row.Name] || row.Title == "" || row.Icon == "" || len(row.Description) <= 20 {
			t.Errorf("row %+v: want a name of its own, a title, an icon and a description", row.Declaration)
		}
		names[row.Name] = true
		if (row.Reply == nil) == (row.Open == nil) {
			t.Errorf("%s: want one of Reply and Open", row.Name)
		}
		row.Input()
		row.Output()
	}
}

func TestANullCountsAsLeftOut(t *testing.T) {
	r := &recorder{}
	_, err := tool(t, "kairos_next").Open(t.Context(), r, access.Caller{}, []byte(`{"uri":"u","solution": null,"run_id":null}`))
	if err != nil || r.next.URI != "u" || r.next.Solution != nil || r.next.RunID != "" {
		t.Errorf("Next got %+v, %v; want the URI alone", r.next, err)
	}
	_, err = tool(t, "kairos_next").Open(t.Context(), r, access.Caller{}, []byte(`{"uri":"u","solution":{"a": null}}`))
	if err != nil || string(r.next.Solution) != `{"a": null}` {
		t.Errorf("Next got solution %s, %v; want it as it was sent", r.next.Solution, err)
	}
}

func TestARowCallsItsUseCase(t *testing.T) {
	r := &recorder{}
	reply, err := tool(t, "kairos_delete").Reply(t.Context(), r, access.Caller{}, []byte(`{"uris":["a","b"]}`))
	if got, ok := reply.(api.DeleteReply); err != nil || !ok || got.TotalDeleted != 2 || len(r.delete) != 2 {
		t.Errorf("reply = %+v, %v; want two deleted", reply, err)
	}
	_, err = tool(t, "kairos_delete").Reply(t.Context(), r, access.Caller{}, []byte(`{"uris":3}`))
	var undecoded *toolset.ArgumentsError
	if !errors.As(err, &undecoded) {
		t.Errorf("error = %v, want an *ArgumentsError", err)
	}
}

func (r *recorder) Dump(context.Context, access.Caller, api.DumpRequest) (api.DumpReply, error) {
	return api.DumpReply{Label: "stored"}, nil
}

func (r *recorder) Part(context.Context, access.Caller, api.DumpRequest) (api.DumpReply, error) {
	return api.DumpReply{Label: "of the run"}, nil
}

func TestDumpReadsARunOnlyForItsParts(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"uri":"u"}`: "stored", `{"uri":"u","run_id":"r"}`: "stored", `{"uri":"u","part":2}`: "stored", `{"uri":"u","part":2,"run_id":"r"}`: "of the run",
	} {
		reply, err := tool(t, "kairos_dump").Reply(t.Context(), &recorder{}, access.Caller{}, []byte(arguments))
		if got, _ := reply.(api.DumpReply); err != nil || got.Label != want {
			t.Errorf("dump %s = %+v, %v; want what is %s", arguments, reply, err, want)
		}
	}
}

// An argument that is almost right would change what a call does by being left out.
func TestNearMisses(t *testing.T) {
	long := strings.Repeat("x", 64<<10+1)
	for name, tc := range map[string]struct{ tool, arguments, want string }{
		"joined otherwise":          {"kairos_next", `{"uri":"u","runId":"r"}`, `"runId" is not an argument of this tool; did you mean "run_id"?`},
		"a dash":                    {"kairos_next", `{"uri":"u","run-id":"r"}`, `did you mean "run_id"?`},
		"a letter too many":         {"kairos_next", `{"uri":"u","solutions":{}}`, `did you mean "solution"?`},
		"a letter too few":          {"kairos_next", `{"uri":"u","solutio":{}}`, `did you mean "solution"?`},
		"two letters swapped":       {"kairos_next", `{"uri":"u","cnacel":true}`, `did you mean "cancel"?`},
		"an address":                {"kairos_next", `{"url":"u"}`, `did you mean "uri"?`},
		"one for many":              {"kairos_delete", `{"uri":"u"}`, `did you mean "uris"?`},
		"another case":              {"kairos_next", `{"URI":"u"}`, `did you mean "uri"?`},
		"another case beside it":    {"kairos_next", `{"uri":"u","URI":"v"}`, `did you mean "uri"?`},
		"what clients add":          {"kairos_next", `{"uri":"u","explanation":"why","toolCallId":"1","_meta":{}}`, ""},
		"both names":                {"kairos_next", `{"uri":"u","run_id":"r","runId":"r"}`, ""},
		"a nonce beside a solution": {"kairos_next", `{"uri":"u","nonce":"n","proof_hash":"h"}`, ""},
		"a text that is too long":   {"kairos_next", `{"uri":"` + long + `"}`, "uri has 65537 bytes: at most 65536 are taken"},
		"a long text of a list":     {"kairos_delete", `{"uris":["a","` + long + `"]}`, "uris has 65537 bytes"},
		"a number for a text":       {"kairos_next", `{"uri":1}`, "arguments: "},
		"two values":                {"kairos_next", `{"uri":"u"}{"uri":"v"}`, "arguments: "},
		"the query":                 {"kairos_search", `{"query":"` + long + `"}`, "query has 65537 bytes: at most 65536"},
		"the query, misspelt":       {"kairos_search", `{"qurey":"q"}`, `did you mean "query"?`},
		"the limit":                 {"kairos_search", `{"query":"q","limits":3}`, `did you mean "limit"?`},
		"a space by another word":   {"kairos_search", `{"query":"q","spaceName":"ops"}`, `did you mean "space"?`},
		"an input":                  {"kairos_begin", `{"uri":"u","inputs":{}}`, `did you mean "input"?`},
		"a session":                 {"kairos_begin", `{"uri":"u","sessionId":"s"}`, `did you mean "session_id"?`},
		"a root":                    {"kairos_begin", `{"uri":"u","root":"/srv"}`, `did you mean "roots"?`},
		"an outcome":                {"kairos_attest", `{"uri":"u","outcome":"success","message":"m","outcomes":"failure"}`, ""},
		"a message":                 {"kairos_attest", `{"uri":"u","outcome":"success","massage":"m"}`, `did you mean "message"?`},
		"force":                     {"kairos_mint", `{"markdown_doc":"d","llm_model_id":"m","force":true}`, `did you mean "force_update"?`},
		"force, joined":             {"kairos_mint", `{"markdown_doc":"d","llm_model_id":"m","forceUpdate":true}`, `did you mean "force_update"?`},
		"the document":              {"kairos_mint", `{"markdownDoc":"d","llm_model_id":"m"}`, `did you mean "markdown_doc"?`},
		"an update":                 {"kairos_update", `{"uris":["u"],"update":{}}`, `did you mean "updates"?`},
		"the whole protocol":        {"kairos_dump", `{"uri":"u","protocols":true}`, `did you mean "protocol"?`},
		"titles":                    {"kairos_spaces", `{"includeChainTitles":true}`, `did you mean "include_chain_titles"?`},
		"the next page":             {"kairos_spaces", `{"curser":"c"}`, `did you mean "cursor"?`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := call(t, tc.tool, tc.arguments)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s(%.100s) = %v, want %q", tc.tool, tc.arguments, err, tc.want)
			}
		})
	}
}

// call makes a call whose use case does nothing.
func call(t *testing.T, name, arguments string) (any, error) {
	t.Helper()
	switch row := tool(t, name); {
	case row.Open != nil:
		return row.Open(t.Context(), idle{}, access.Caller{}, []byte(arguments))
	default:
		return row.Reply(t.Context(), idle{}, access.Caller{}, []byte(arguments))
	}
}

// idle does nothing.
type idle struct{ toolset.Engine }

func (idle) Search(context.Context, access.Caller, api.SearchRequest) (api.SearchReply, error) {
	return api.SearchReply{}, nil
}

func (idle) Next(context.Context, access.Caller, api.NextRequest) (director.Round, error) {
	return director.Round{}, nil
}

func (idle) Attest(context.Context, access.Caller, api.AttestRequest) (api.AttestReply, error) {
	return api.AttestReply{}, nil
}
