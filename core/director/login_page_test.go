package director_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// loggedIn is somebody else than the owner of a run, logged in with a browser.
func loggedIn(spaces ...string) access.Caller {
	return access.Caller{Principal: "user:test:bob", Space: "user:test:bob", Groups: spaces, Method: access.ByLogin, Credential: "session:1"}
}

func TestWhoeverIsLoggedInAndReadsTheSpaceAnswers(t *testing.T) {
	for decision, state := range map[string]approval.State{"approved": approval.Approved, "rejected": approval.Rejected} {
		t.Run(decision, func(t *testing.T) {
			w := withPage(t, nil)
			uri, waits := w.gate(gatedDoc)
			token := loggedIn(w.caller.Space)
			token.Method = access.ByToken
			for name, tc := range map[string]struct {
				caller access.Caller
				want   fault.Code
			}{
				"a program with a token":             {token, fault.Forbidden},
				"somebody who cannot read the space": {loggedIn("group:test:others"), fault.NotFound},
			} {
				if _, err := w.Approval(t.Context(), tc.caller, runOf(waits), secretOf(waits)); fault.CodeOf(err) != tc.want {
					t.Errorf("the page for %s = %v, want %s", name, err, tc.want)
				}
				_, err := w.AnswerApproval(t.Context(), tc.caller, runOf(waits), secretOf(waits), approval.Answer{Decision: decision, Digest: w.view(waits).Digest, By: tc.caller.Principal})
				if fault.CodeOf(err) != tc.want {
					t.Errorf("the answer of %s = %v, want %s", name, err, tc.want)
				}
			}
			bob := loggedIn(w.caller.Space)
			v, err := w.Approval(t.Context(), bob, runOf(waits), secretOf(waits))
			if err != nil || v.State != approval.Open {
				t.Fatalf("the page for somebody logged in = %+v, %v, want an open approval", v, err)
			}
			v, err = w.AnswerApproval(t.Context(), bob, runOf(waits), secretOf(waits), approval.Answer{Decision: decision, Digest: v.Digest, By: bob.Principal})
			if err != nil || v.State != state || v.By != bob.Principal {
				t.Errorf("the answer = %s by %q, %v, want %s by %s", v.State, v.By, err, state, bob.Principal)
			}
			if decision == "rejected" {
				contains(t, w.moment(waits, string(run.Declined)).Verdict, "rejected on the approval page, by user:test:bob")
				return
			}
			contains(t, w.moment(waits, "approved").Verdict, "on the approval page, by user:test:bob")
			if a := w.state(runOf(waits)).Step.Approval; a == nil || a.By != bob.Principal || a.Approver() != "a person (login)" || a.Provenance != driver.ClientAttested {
				t.Errorf("approval = %+v, want one of a person who logged in", a)
			}
			w.code(w.next(uri, placeholder(waits)), "")
		})
	}
}
