package api

import (
	"time"
)

// Dump declares kairos_dump.
var Dump = Tool[DumpRequest, DumpReply]{Declaration{
	Name: "kairos_dump", Title: "Inspect memory or protocol (read-only)",
	Description: "Read a step or a protocol as the Markdown it was stored from, to review it or to prepare kairos_mint or kairos_update. It starts no run.",
	ReadOnly:    true, Idempotent: true,
	Icon: "M2 12c5-9 15-9 20 0c-5 9-15 9-20 0M12 9a3 3 0 1 0 0 6a3 3 0 1 0 0-6",
}}

// DumpRequest asks for a step, or for its whole protocol.
type DumpRequest struct {
	URI      string `json:"uri" doc:"URI or UUID of a step" min:"1"`
	Protocol bool   `json:"protocol,omitempty" doc:"The whole protocol"`
	// Part is which part of the text, 0: all of it.
	Part int `json:"part,omitempty" doc:"Only this part of a long text, from 1" min:"1"`
	// RunID counts with Part only: what is read without it is stored again.
	RunID string `json:"run_id,omitempty" doc:"With part: as this run shows it"`
}

// DumpReply is a step or, with protocol, a whole chain as Markdown.
type DumpReply struct {
	URI        string     `json:"uri"`
	Label      string     `json:"label"`
	ChainLabel *string    `json:"chain_label"`
	Position   *Position  `json:"position,omitempty"`
	Challenge  *Challenge `json:"challenge,omitempty" doc:"Challenge as a run would show it" form:"opaque"`
	StepCount  int        `json:"step_count,omitempty"`
	// Worth says what the steps of a protocol will be worth at least (run.Worth).
	Worth   string   `json:"worth,omitempty" doc:"How far a run of the protocol can be relied on"`
	Quality *Quality `json:"quality,omitempty" doc:"How the step did so far" form:"opaque"` // of a single step that was rated
	// Part and Parts are set where the document is a part of the text.
	Part     int    `json:"part,omitempty" doc:"Which part this is"`
	Parts    int    `json:"parts,omitempty" doc:"How many there are"`
	Document string `json:"markdown_doc"`
}

// Position of a step in its chain.
type Position struct {
	StepIndex int `json:"step_index"`
	StepCount int `json:"step_count"`
}

// Quality is what the ratings of a step add up to.
type Quality struct {
	Score          int       `json:"step_quality_score"`
	Tier           string    `json:"step_quality"`
	RetrievalCount int64     `json:"retrievalCount"`
	SuccessCount   int64     `json:"successCount"`
	PartialCount   int64     `json:"partialCount"`
	FailureCount   int64     `json:"failureCount"`
	QualityBonus   float64   `json:"qualityBonus"`
	LastRated      time.Time `json:"lastRated,omitzero"`
	LastRater      string    `json:"lastRater,omitempty"`
	UsageContext   string    `json:"usageContext,omitempty"`
}

// Verbatim implements Verbatim: kairos_update and kairos_mint take the document back.
func (DumpReply) Verbatim() {}
