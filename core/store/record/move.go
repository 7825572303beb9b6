package record

import (
	"encoding/json"
	"iter"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
)

// Rows is everything that a store keeps: values of the Moved types, of
// acceptances.Acceptance and of declines.Decline. Chains come before vectors, and pins
// before runs.
type Rows = iter.Seq2[any, error]

// MovedChain is a stored chain with its revision.
type MovedChain struct {
	Chain protocol.Chain
	Saved int64
}

// MovedVersion is an older version of a chain, or a deletion.
type MovedVersion struct {
	Space, ID, Title string
	Revision         int64
	StepCount        int
	Model            string
	Saved            int64
	Outline, Texts   json.RawMessage // what ReadChain reads; nil if the chain was deleted
}

// MovedFormer is the chain that had a step which no chain of the space has any more.
type MovedFormer struct{ Space, UUID, Chain string }

// MovedRating is how a step did.
type MovedRating struct {
	Space, UUID string
	Quality     api.Quality
}

// MovedVector is the vector of a passage.
type MovedVector struct {
	Model, Hash string
	Vector      []float32
}

// MovedPin is a chain that runs are pinned to.
type MovedPin struct {
	Digest string
	Chain  protocol.Chain
}

// MovedRun is a run with everything that happened in it.
type MovedRun struct {
	Run   run.Run
	Space string // of the pinned chain
	Saves []MovedSave
}

// MovedSave is what one save added to a run.
type MovedSave struct {
	Revision int64
	Document json.RawMessage // events and recorded replies
	Keys     []string        // of the replies
}
