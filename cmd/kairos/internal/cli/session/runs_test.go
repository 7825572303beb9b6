package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
)

// pages replies with runs, two at a time.
type pages struct{ runs []run.Summary }

func (p pages) Call(_ context.Context, tool api.Declaration, arguments json.RawMessage) (json.RawMessage, error) {
	var in operations.ListRunsRequest
	if err := json.Unmarshal(arguments, &in); err != nil || tool.Name != operations.ListRuns.Name || !in.All {
		return nil, fmt.Errorf("call of %s with %s: %w", tool.Name, arguments, err)
	}
	from := 0
	if in.Cursor != "" {
		for from = range p.runs {
			if string(p.runs[from].ID) == in.Cursor {
				break
			}
		}
		from++
	}
	to := min(from+2, len(p.runs))
	reply := archive.RunsReply{Runs: p.runs[from:to]}
	if to < len(p.runs) {
		reply.NextCursor = string(p.runs[to-1].ID)
	}
	return json.Marshal(reply)
}

// stuck replies with the same page always.
type stuck struct{}

func (stuck) Call(context.Context, api.Declaration, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"runs":[{"id":"r"}],"next_cursor":"r"}`), nil
}

func TestAServerThatRepeatsItsPageIsGivenUp(t *testing.T) {
	err := session.EachRuns(t.Context(), stuck{}, operations.ListRunsRequest{}, func([]run.Summary) error { return nil })
	if fault.CodeOf(err) != fault.UnexpectedReply {
		t.Errorf("EachRuns = %v, want %s", err, fault.UnexpectedReply)
	}
}

func TestRunsOfAllPagesAreFound(t *testing.T) {
	var p pages
	for i := range 5 {
		p.runs = append(p.runs, run.Summary{ID: run.ID(fmt.Sprintf("01900000-0000-7000-8000-00000000000%d", i)), Title: fmt.Sprintf("Protocol %d", i), State: run.Open})
	}
	var all []run.Summary
	err := session.EachRuns(t.Context(), p, operations.ListRunsRequest{All: true}, func(page []run.Summary) error {
		all = append(all, page...)
		return nil
	})
	if err != nil || len(all) != len(p.runs) || all[4].ID != p.runs[4].ID {
		t.Errorf("EachRuns = %v, %v, want those of all pages", all, err)
	}
	for arg, want := range map[string]run.ID{
		"00000004": p.runs[4].ID, "protocol 3": p.runs[3].ID, string(p.runs[1].ID): p.runs[1].ID, "nothing": "nothing",
	} {
		if id, err := session.FindRun(t.Context(), p, arg); err != nil || id != want {
			t.Errorf("FindRun(%q) = %q, %v, want %q", arg, id, err, want)
		}
	}
}
