// Package operations is the table of the calls that operators make: each
// declaration with its use case. REST serves them beside the tools, and commands
// make them with --url. MCP does not offer them to agents.
package operations

import (
	"context"
	"slices"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/shape"
)

// Engine is the use cases behind the operations. Methods are called concurrently.
type Engine interface {
	Runs
	Records
	Pages
	Versions
	Statements
	Diagnosis
	Spaces
	Refusals
}

// Refusals hears which calls were refused.
type Refusals interface {
	// Refused is told of a use case that the caller may not make, and why, and returns that.
	Refused(ctx context.Context, c access.Caller, useCase string, err error) error
}

// Operation is one row of the table.
type Operation struct {
	api.Declaration
	// OfRuns: the call is about runs, which may be of protocols in spaces that the
	// caller's tools leave alone.
	OfRuns bool
	// Input and Output make the schemas of the request and of the reply.
	Input, Output func() *shape.Schema
	// Reply makes the call. Arguments that do not decode are a
	// *toolset.ArgumentsError.
	Reply func(ctx context.Context, e Engine, c access.Caller, arguments []byte) (any, error)
}

// Table lists the operations.
var Table = []Operation{
	ofRuns(ListRuns, listRuns),
	ofRun(ShowRun, showRun),
	ofRun(ShowRunPage, showRunPage),
	ofRun(ResumeRun, resumeRun),
	ofRun(AbandonRun, abandonRun),
	ofRun(DecideRun, decideRun),
	ofRun(CancelRun, cancelRun),
	ofRun(ExportRun, exportRun),
	row(SigningKey, signingKey),
	row(ProtocolHistory, protocolHistory),
	row(ProtocolVersion, protocolVersion),
	row(RestoreProtocol, restoreProtocol),
	ofRuns(Doctor, diagnose),
	row(CreateSpace, createSpace),
}

// Named returns the row of an operation; false: there is none of that name.
func Named(name string) (Operation, bool) {
	i := slices.IndexFunc(Table, func(o Operation) bool { return o.Name == name })
	if i < 0 {
		return Operation{}, false
	}
	return Table[i], true
}

// useCase makes the call of an operation.
type useCase[Request, Reply any] = func(ctx context.Context, e Engine, c access.Caller, in Request) (Reply, error)

func row[Request, Reply any](t api.Tool[Request, Reply], use useCase[Request, Reply]) Operation {
	return Operation{
		Declaration: t.Declaration, Input: t.Input, Output: t.Output,
		Reply: func(ctx context.Context, e Engine, c access.Caller, arguments []byte) (any, error) {
			in, err := toolset.Decode[Request](arguments)
			if err != nil {
				return nil, err
			}
			if access.Needs(t.Name) == access.Operate {
				if err := c.Check(t.Name, ""); err != nil {
					return nil, e.Refused(ctx, c, t.Name, err)
				}
			}
			return use(ctx, e, c, in)
		},
	}
}

func ofRuns[Request, Reply any](t api.Tool[Request, Reply], use useCase[Request, Reply]) Operation {
	o := row(t, use)
	o.OfRuns = true
	return o
}

// ofRun is a row about the run that the request names.
func ofRun[Request interface{ id() run.ID }, Reply any](t api.Tool[Request, Reply], use useCase[Request, Reply]) Operation {
	return ofRuns(t, func(ctx context.Context, e Engine, c access.Caller, in Request) (reply Reply, err error) {
		if in.id() == "" {
			return reply, fault.New(fault.InvalidArgument, "run_id is missing")
		}
		return use(ctx, e, c, in)
	})
}
