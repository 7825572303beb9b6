package api

import (
	"encoding/json"
)

// UpdateRequest changes steps: Documents[i] for URIs[i], or Updates for all.
type UpdateRequest struct {
	URIs      []string
	Documents []string
	Updates   json.RawMessage
}

// UpdateReply lists the outcome for each URI, in order.
type UpdateReply struct {
	Results      []ItemResult `json:"results"`
	TotalUpdated int          `json:"total_updated"`
	TotalFailed  int          `json:"total_failed"`
}

// ItemResult is the outcome for one URI.
type ItemResult struct {
	URI     string `json:"uri"`
	Status  string `json:"status"` // updated, deleted or error
	Message string `json:"message"`
	// ErrorCode is set when Status is error, NextCall where one helps.
	ErrorCode string    `json:"error_code,omitempty"`
	NextCall  *NextCall `json:"next_call,omitempty"`
}
