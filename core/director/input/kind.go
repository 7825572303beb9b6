package input

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Kind is what the director knows of one kind of input. A kind that only drivers
// know has nothing but a name: the tree says how it is obtained, and every answer
// that its driver may give is taken.
type Kind struct {
	Name string
	// Reserved: only the director asks for it, with its name as id.
	Reserved bool
	// Internal: the director answers it itself. No route leads to it.
	Internal bool
	// Evidence: it is what the step's challenge is about. The challenge's own
	// prompt is for it, and the agent may give it in a solution of the type.
	Evidence bool
	// Approves: its answer is a person's approval of another input.
	Approves bool
	// Judges: its answer is a verdict on the result, not evidence.
	Judges bool
	// OfRun: the run needs it before its first step, so it has no type.
	OfRun bool
	// Optional: the run continues where nobody answers, and a person's no is an answer.
	Optional bool
	// Ungated: it is not a part of what a person approves.
	Ungated bool
	// Personal: only a driver that may answer for a person obtains it.
	Personal bool
	// Quiet: unless a person is asked, it may follow another question of the call.
	Quiet bool
	// Between: the step behind it is shown to the agent, which has missed nothing.
	Between bool
	// OwnShape: in a solution its value has no field named like the type.
	OwnShape bool

	// Missing is the code where no route obtains it; empty: DRIVER_UNAVAILABLE.
	Missing fault.Code
	// NoRoute words that; nil: in general words.
	NoRoute func(step int, troubles string) *fault.Error
	// TakesReport reports whether the agent's report is taken whatever was tried
	// before; nil: it is not.
	TakesReport func(*Task) bool
	// Doubt says what is wrong with the value of an answer; nil: nothing can be.
	Doubt func(value json.RawMessage) string
	// Settle says what an answer comes to before it is recorded; nil: it is taken.
	Settle func(*Task, Setting, driver.Answer) (Settlement, error)
	// Check says in what something is not as the step demands, once the answer is
	// recorded; nil: nothing is checked. Mismatch is the code of the rejection.
	Check    func(*Task, driver.Answer) (string, error)
	Mismatch fault.Code
}

// Setting is where an answer is settled.
type Setting struct {
	Run    run.Run
	Chain  protocol.Chain
	Phrase string // to type for an approval; empty: none
	// Asked: it answers a question to the client, which can be asked again.
	Asked bool
}

// Settlement is the outcome of an answer. The zero value takes the answer as it is.
type Settlement struct {
	Value    json.RawMessage // recorded in its place; nil: as it is
	Declined bool            // it declines
	Unusable string          // the driver failed, and why
	Refused  string          // a submission that does not count, and why
	// Again: why the question is put again, if there was one.
	Again []driver.Diagnostic
}

// The kinds that the director knows.
var (
	ApprovalKind = Kind{
		Name: driver.KindApproval, Reserved: true, Approves: true, Personal: true,
		Missing: fault.ApprovalUnavailable, Settle: settleApproval,
	}
	EvidenceKind = Kind{Name: driver.KindEvidence, Evidence: true}
	FilesKind    = Kind{
		Name: driver.KindFiles, Reserved: true, Ungated: true, Quiet: true, Between: true, OwnShape: true,
		Missing: fault.FilesUnverified, NoRoute: noFiles, TakesReport: takesFileReport, Settle: settleFiles,
		Check: FilesMismatch, Mismatch: fault.FilesMismatch,
	}
	JudgementKind = Kind{
		Name: driver.KindJudge, Reserved: true, Judges: true, Ungated: true,
		Missing: fault.JudgeUnavailable, Doubt: doubtJudgement,
	}
	RunKind        = Kind{Name: driver.KindRunInput, Reserved: true, OfRun: true, Personal: true, Between: true, Settle: settleRun}
	AcceptanceKind = Kind{Name: driver.KindAcceptance, Reserved: true, OfRun: true, Optional: true, Ungated: true, Personal: true, Between: true}
	SimilarityKind = Kind{Name: driver.KindSimilarity, Internal: true, Ungated: true}
)

var kinds = map[string]Kind{
	ApprovalKind.Name: ApprovalKind, EvidenceKind.Name: EvidenceKind, FilesKind.Name: FilesKind,
	AcceptanceKind.Name: AcceptanceKind, JudgementKind.Name: JudgementKind, RunKind.Name: RunKind, SimilarityKind.Name: SimilarityKind,
}

// Of returns the kind of that name, which only drivers may know.
func Of(name string) Kind {
	if k, ok := kinds[name]; ok {
		return k
	}
	return Kind{Name: name}
}

// ByID returns the reserved kind with that id, or else a kind without a name.
func ByID(id string) Kind {
	if k := kinds[id]; k.Reserved {
		return k
	}
	return Kind{}
}
