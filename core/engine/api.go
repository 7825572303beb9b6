package engine

import (
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// AppSpace is the space of the built-in protocols; readable by everybody.
const AppSpace = "space:kairos-app"

// Caller is who calls and through what. Every use case takes one.
type Caller struct {
	Principal string
	// Space is the caller's own, where it writes unless it names another.
	Space string
	// Groups are further spaces that the caller reads and writes, by id:
	// "group:<realm>:<ref>". Everybody reads AppSpace.
	Groups []string
	// Connection names the caller's connection; empty for a client that
	// keeps none, as in the 2026-07-28 era.
	Connection string
	Client     driver.Client
	// Visit is how the caller reached the approval page, for calls that come from it.
	Visit run.Visit
	// CanWait is how long a question to a person may hold this call.
	CanWait time.Duration
	// Holding reports whether the caller's connection still waits for the
	// client's answer to this question; nil: it never does. Such a question
	// goes on instead of being asked again.
	Holding func(id run.ID, seq int64) bool
	// Asked, if set, hears of a question that this call is about to ask, before
	// another call can see it in the run: from then on Holding reports it.
	Asked func(id run.ID, seq int64)
	// Detached: nobody waits for the reply, so nothing may be asked.
	Detached bool
}

// Round is the outcome of Begin, Next and Continue: either Reply or Ask is set.
type Round struct {
	Reply *api.StepReply
	Ask   *Ask
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
	Method string // elicitation/create, sampling/createMessage, roots/list
	Params json.RawMessage
	// Wait is how long this call may wait for the answer. When it has passed,
	// call Waiting; the question itself goes on.
	Wait time.Duration
	// Human: a person answers.
	Human bool
	// Linked: the question can be answered on its page as well, see Settled.
	Linked bool
}

// Continuation is the client's reply to an Ask.
type Continuation struct {
	Run run.ID
	Seq int64
	// Exactly one of the two.
	Result json.RawMessage
	Error  *driver.ClientError
}

// ExplainedSearch is a search with the reasons of its matches.
type ExplainedSearch struct {
	api.SearchReply
	Explained []Explanation `json:"explained"` // in the order of the matches
}

// Explanation is why a protocol matched.
type Explanation struct {
	URI        string  `json:"uri"`
	ChainLabel string  `json:"chain_label"`
	Score      float64 `json:"score"`
	Why        []Match `json:"why"`
}
