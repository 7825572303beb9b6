package api

import (
	"time"
)

// DumpReply is a step or, with protocol, a whole chain as Markdown.
type DumpReply struct {
	Document   string     `json:"markdown_doc"`
	URI        string     `json:"uri"`
	Label      string     `json:"label"`
	ChainLabel *string    `json:"chain_label"`
	Position   *Position  `json:"position,omitempty"`
	Challenge  *Challenge `json:"challenge,omitempty"`
	StepCount  int        `json:"step_count,omitempty"`
	Quality    *Quality   `json:"quality,omitempty"` // of a single step that was rated
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
