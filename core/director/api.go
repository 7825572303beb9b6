package director

import (
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Round is the outcome of Begin, Next and Continue: either Reply or Ask is set.
type Round struct {
	Reply *api.StepReply
	// Encoded is Reply as api.Encode has it; nil: it was not needed yet.
	Encoded []byte
	Ask     *Ask
	// Pending, beside a Reply that says that a person is waited for, is what
	// the call may wait for before it replies.
	Pending *Pending
	// Later, beside a Reply that says that a driver is waited for, is when to ask
	// it again, with Retried, before the call replies.
	Later *Later
}

// Ask is a question for the client. It is in the run record already; its
// answer goes to Continue with the same Run and Seq.
type Ask struct {
	Run    run.ID
	Seq    int64
	Method string
	Params json.RawMessage
	// Needs are RFC 6901 pointers into what the client declared, at least one. A
	// client that lacks any of them is not sent the request; see NotDeclared.
	Needs []string
	// Wait is how long this call may wait for the answer. When it has passed,
	// call Waiting; the question itself stays open.
	Wait time.Duration
	// Human: a person answers.
	Human bool
	// Linked: the question can be answered on its page as well, see Settled.
	Linked bool
}

// Elicitation is the id of a request that has a person open an address, else empty.
func (a *Ask) Elicitation() string {
	id, _ := plan.ByURL(a.Method, a.Params)
	return id
}

// Continuation is the client's reply to an Ask.
type Continuation struct {
	Run run.ID
	Seq int64
	// Exactly one of the two.
	Result json.RawMessage
	Error  *driver.ClientError
	// Delay is how long the reply took, from when the question was sent, as the connection measured it;
	// nil: the time is that of the record.
	Delay *run.Delay
}
