package director_test

import (
	"context"
	"testing"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

const shared = "space:shared"

// inShared is a caller with these verbs in the shared space.
func inShared(name string, may access.Verbs) access.Caller {
	return access.Caller{Principal: "user:test:" + name, Space: "user:test:" + name, Granted: []access.Grant{{Space: shared, Verbs: may}}}
}

// The table of access says what each call needs: here each is made by callers with every
// combination of rights in a shared space.
func TestEachCallNeedsTheRightOfTheTable(t *testing.T) {
	const doc = "# Shared\n\n## One\n\nx\n\n## Two\n\ny\n"
	calls := map[string]func(w *world, c access.Caller, uris []string, run string) error{
		"kairos_search": func(w *world, c access.Caller, _ []string, _ string) error {
			_, err := w.Search(w.t.Context(), c, api.SearchRequest{Query: "shared", Space: shared})
			return err
		},
		"kairos_dump": func(w *world, c access.Caller, uris []string, _ string) error {
			_, err := w.Dump(w.t.Context(), c, api.DumpRequest{URI: uris[0]})
			return err
		},
		"kairos_begin": func(w *world, c access.Caller, uris []string, _ string) error {
			_, err := w.Begin(w.t.Context(), c, api.BeginRequest{URI: uris[0]})
			return err
		},
		"kairos_next": func(w *world, c access.Caller, uris []string, run string) error {
			_, err := w.Next(w.t.Context(), c, api.NextRequest{URI: uris[0], RunID: run})
			return err
		},
		"kairos_attest": func(w *world, c access.Caller, uris []string, run string) error {
			_, err := w.Attest(w.t.Context(), c, api.AttestRequest{URI: uris[0], RunID: run, Outcome: "failure", Message: "stopped"})
			return err
		},
		"kairos_mint": func(w *world, c access.Caller, _ []string, _ string) error {
			_, err := w.Mint(w.t.Context(), c, api.MintRequest{Document: "# Another\n\n## One\n\nx\n", ModelID: "m", Space: "shared"})
			return err
		},
		"kairos_update": func(w *world, c access.Caller, uris []string, _ string) error {
			r, err := w.Update(w.t.Context(), c, api.UpdateRequest{URIs: uris[1:2], Documents: []string{"## Two\n\nz\n"}})
			if err == nil && r.TotalFailed > 0 {
				err = fault.New(fault.Code(r.Results[0].ErrorCode), "%s", r.Results[0].Message)
			}
			return err
		},
		"kairos_delete": func(w *world, c access.Caller, uris []string, _ string) error {
			r, err := w.Delete(w.t.Context(), c, api.DeleteRequest{URIs: uris[:1]})
			if err == nil && r.TotalFailed > 0 {
				err = fault.New(fault.Code(r.Results[0].ErrorCode), "%s", r.Results[0].Message)
			}
			return err
		},
	}
	for name, call := range calls {
		for who, may := range map[string]access.Verbs{"runs": {Run: true}, "writes": {Write: true}, "runs and writes": {Run: true, Write: true}} {
			for token, narrowed := range map[string]*access.Verbs{"": nil, ", with a token that only reads": {}} {
				t.Run(name+" by one who "+who+token, func(t *testing.T) {
					w := newWorld(t, nil)
					c := inShared("ann", may)
					w.caller = access.Caller{Principal: "user:test:owner", Space: shared}
					uris := w.mint(doc)
					all := c
					all.Granted = []access.Grant{{Space: shared, Verbs: access.Verbs{Run: true, Write: true}}}
					round, err := w.Begin(context.Background(), all, api.BeginRequest{URI: uris[0]}) // while it was allowed
					if err != nil {
						t.Fatal(err)
					}
					c.Narrowed = narrowed
					want := map[access.Verb]bool{access.Read: true, access.Run: may.Run && narrowed == nil, access.Write: may.Write && narrowed == nil}[access.Needs(name)]
					if err := call(w, c, uris, w.reply(round).RunID); (err == nil) != want || err != nil && fault.CodeOf(err) != fault.Forbidden {
						t.Errorf("%s = %v, want it allowed: %t, else %s", name, err, want, fault.Forbidden)
					}
				})
			}
		}
	}
}

// An operator looks at the runs of others and ends them, and continues none.
func TestAnOperatorCancelsAndContinuesNothingOfOthers(t *testing.T) {
	w, d, uri, r := slowly(t, notDone)
	boss := access.Caller{Principal: "user:test:boss", Space: "user:test:boss", Operator: true}
	for name, call := range map[string]func() error{
		"begin again": func() error {
			_, err := w.Begin(t.Context(), boss, api.BeginRequest{URI: uri, SessionID: r.RunID})
			return err
		},
		"next": func() error {
			_, err := w.Next(t.Context(), boss, api.NextRequest{URI: uri, RunID: r.RunID, Solution: []byte(placeholder(r))})
			return err
		},
		"attest": func() error {
			_, err := w.Attest(t.Context(), boss, api.AttestRequest{URI: uri, RunID: r.RunID, Outcome: "failure", Message: "stopped"})
			return err
		},
	} {
		if err := call(); err == nil {
			t.Errorf("%s: an operator continued the run of another", name)
		}
	}
	cancelled, err := w.Cancel(t.Context(), boss, director.CancelInput{Run: runOf(r), By: "the boss"})
	if err != nil || !cancelled.Ended || !d.asked[len(d.asked)-1].Cancel {
		t.Errorf("Cancel by an operator = %+v, %v, want that the driver has ended it", cancelled, err)
	}
	if m := w.moment(r, "cancelled"); m.Verdict != "by the boss" {
		t.Errorf("it was cancelled %q", m.Verdict)
	}
	if s, err := w.Abandon(t.Context(), boss, runOf(r), "it stands around"); err != nil || s.State != run.Ended {
		t.Errorf("Abandon by an operator = %+v, %v", s, err)
	}
}
