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

func TestNearMisses(t *testing.T) {
	for arguments, says := range map[string]string{
		`{"URI":"u"}`:                 `"URI" must be written "uri"`,
		`{"uri":"u","Run_Id":"r"}`:    `"Run_Id" must be written "run_id"`,
		`{"uri":"u","URI":"v"}`:       `"URI" must be written "uri"`,
		`{"uri":"u","SOLUTION":null}`: `"SOLUTION" must be written "solution"`,
	} {
		_, err := tool(t, "kairos_next").Open(t.Context(), &recorder{}, access.Caller{}, []byte(arguments))
		var undecoded *toolset.ArgumentsError
		if !errors.As(err, &undecoded) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error = %v, want one that says %q", arguments, err, says)
		}
	}
}
