package director_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

// ordersNoLoop checks what holds for every reply: what must be obeyed names its call, that call is
// not the one that was just made, unless somebody is waited for or an attempt was counted, and a link
// ends the message. Sent is the last solution.
func ordersNoLoop(t testing.TB, r api.StepReply, sent string) {
	t.Helper()
	if r.MustObey != (r.NextCall != nil) {
		t.Errorf("%s: must_obey is %t and next_call %+v (%s)", r.ErrorCode, r.MustObey, r.NextCall, r.NextAction)
	}
	if r.ApprovalURL != "" && !strings.HasSuffix(r.Message, " "+r.ApprovalURL) {
		t.Errorf("the link %s does not stand at the end of %q", r.ApprovalURL, r.Message)
	}
	waits := r.ErrorCode == string(fault.WaitingForUser) || r.ErrorCode == string(fault.WaitingForDriver)
	if waits && (r.RetryAfter == nil || *r.RetryAfter < 0) {
		t.Errorf("%s without retry_after", r.ErrorCode)
	}
	waits = waits || r.ApprovalURL != "" // a person has the link
	counted := r.RetryCount != nil && *r.RetryCount > 0
	if r.NextCall == nil || r.NextCall.Tool != api.ToolNext || r.ErrorCode == "" || waits || counted || strings.Contains(sent, `"<`) {
		return
	}
	var next struct {
		Solution any `json:"solution"`
	}
	var before any
	if err := json.Unmarshal(r.NextCall.Arguments, &next); err != nil {
		t.Error(err)
	}
	if json.Unmarshal([]byte(sent), &before) == nil && cmp.Equal(before, next.Solution) {
		t.Errorf("%s: the next call is the one that was made: %s", r.ErrorCode, sent)
	}
}
