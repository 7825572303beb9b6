package driverrpc

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Calls is a driver behind any transport. *Client calls one over gRPC,
// *ExecClient one that is a process per call. Safe for concurrent use.
type Calls interface {
	// Describe returns the driver's descriptor, checked.
	Describe(ctx context.Context) (driver.Descriptor, error)
	// Configure sets the driver's configuration, or with dryRun only judges it.
	Configure(ctx context.Context, config json.RawMessage, dryRun bool) ([]driver.Diagnostic, error)
	// CheckHealth returns nil when the driver can serve calls now.
	CheckHealth(ctx context.Context) error
	// Challenge is the driver's challenge role.
	Challenge() driver.Challenge
	// Capability is the driver's capability role.
	Capability() driver.Capability
}

var (
	_ Calls = (*Client)(nil)
	_ Calls = (*ExecClient)(nil)
)

// The methods of the contract, by the names that CallFlag takes.
const (
	MethodDescribe    = "Describe"
	MethodConfigure   = "Configure"
	MethodCheckHealth = "CheckHealth"
	MethodValidate    = "Validate"
	MethodAdvance     = "Advance"
	MethodRender      = "Render"
	MethodInterpret   = "Interpret"
	MethodPreview     = "Preview"
)

// The JSON form of the base calls; that of all others is package driver's.
type (
	// ConfigureRequest is the request of MethodConfigure.
	ConfigureRequest struct {
		Config json.RawMessage `json:"config,omitempty"`
		DryRun bool            `json:"dry_run"`
	}
	// ConfigureResult is the reply to it.
	ConfigureResult struct {
		Diagnostics []driver.Diagnostic `json:"diagnostics,omitempty"`
	}
	// Health is the reply to MethodCheckHealth.
	Health struct {
		Healthy bool   `json:"healthy"`
		Reason  string `json:"reason,omitempty"` // why not
	}
)
