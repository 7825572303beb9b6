package run

import "github.com/kairos-mcp/kairos/sdk/driver"

// approvalInput is the id of the input that asks for a step's approval.
const approvalInput = driver.KindApproval

// rule is what the state machine does with the inputs of a kind.
type rule struct {
	approves bool // its answer is the approval of the step
	ofRun    bool // its answer is the input of the run
	accepts  bool // its answer accepts what drivers do, of which the run keeps nothing
	judges   bool // its answer is the verdict that the step waits for
	// ungated: it is obtained although the step waits for an approval. Files and
	// a judgement come after the work, which is what was approved.
	ungated bool
}

// rules are by kind. A kind that is not listed is evidence.
var rules = map[string]rule{
	driver.KindApproval:   {approves: true, ungated: true},
	driver.KindSimilarity: {ungated: true},
	driver.KindFiles:      {ungated: true},
	driver.KindJudge:      {judges: true, ungated: true},
	driver.KindRunInput:   {ofRun: true},
	driver.KindAcceptance: {accepts: true, ungated: true},
}
