package operations

import (
	"context"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
)

// Doctor declares doctor.
var Doctor = api.Tool[DoctorRequest, Report]{Declaration: api.Declaration{
	Name: "doctor", Title: "Diagnose the server", ReadOnly: true, Idempotent: true,
	Description: "Say how the server, its stores and its drivers are, and which steps of your protocols and which of your open runs no driver serves.",
}}

// DoctorRequest has no fields.
type DoctorRequest struct{}

// Diagnosis is the use case about the server.
type Diagnosis interface {
	Diagnose(ctx context.Context, c access.Caller) (Report, error)
}

// Report is what a server says of itself. It names no files, processes and
// settings: those are for the machine that it runs on.
type Report struct {
	Version string `json:"version" doc:"Version of the server"`
	// Store keeps protocols and runs. While it has a problem, Steps and Runs are empty.
	Store     Part          `json:"store"`
	Index     *Part         `json:"index,omitempty" doc:"The index beside the store; left out: there is none"`
	Embedding Part          `json:"embedding"`
	Readiness Part          `json:"readiness"`
	Audit     *Part         `json:"audit,omitempty" doc:"The audit log; left out: there is none"`
	Drivers   []DriverState `json:"drivers" doc:"The drivers, by name"`
	archive.Unserved
}

// Part is one thing that the server depends on.
type Part struct {
	_ struct{} `doc:"One thing that the server depends on"`

	Detail  string `json:"detail,omitempty" doc:"What it is"`
	Problem string `json:"problem,omitempty" doc:"Why it cannot be used; left out: it can"`
}

// DriverState is a driver of the server.
type DriverState struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state" doc:"Where it is in its life, such as ready or backoff"`
	// Failing: it failed and waits before it is started again.
	Failing bool `json:"failing,omitempty" doc:"It failed and waits before it is started again"`
}

func diagnose(ctx context.Context, e Engine, c access.Caller, _ DoctorRequest) (Report, error) {
	return e.Diagnose(ctx, c)
}
