package operations

import (
	"context"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/statement"
)

// Statements is the use cases about signed statements.
type Statements interface {
	// Statement signs a statement of one of the caller's runs.
	Statement(ctx context.Context, c access.Caller, id run.ID, withoutEvidence bool) ([]byte, error)
	// PublicKey is the public part of the key that signs them.
	PublicKey() (statement.PublicKey, error)
}

// ExportRun declares runs_export.
var ExportRun = api.Tool[ExportRunRequest, ExportRunReply]{Declaration: api.Declaration{
	Name: "runs_export", Title: "Export a signed statement of a run", ReadOnly: true,
	Description: "Make an in-toto Statement of one of your runs in a DSSE envelope, signed with the key of the server. Challenges and evidence are attached outside the signed part.",
}}

// ExportRunRequest names a run to state.
type ExportRunRequest struct {
	RunRequest

	WithoutEvidence bool `json:"without_evidence,omitempty" doc:"Leave challenges and evidence out: their digests stay; default false"`
}

// ExportRunReply is a signed statement.
type ExportRunReply struct {
	Statement string `json:"statement" doc:"The file, as kairos runs verify reads it"`
}

func exportRun(ctx context.Context, e Engine, c access.Caller, in ExportRunRequest) (ExportRunReply, error) {
	data, err := e.Statement(ctx, c, in.RunID, in.WithoutEvidence)
	return ExportRunReply{string(data)}, err
}

// SigningKey declares runs_key.
var SigningKey = api.Tool[SigningKeyRequest, SigningKeyReply]{Declaration: api.Declaration{
	Name: "runs_key", Title: "Show the public key of statements", ReadOnly: true, Idempotent: true,
	Description: "Show the public part of the key that signs the statements of runs.",
}}

// SigningKeyRequest has no fields.
type SigningKeyRequest struct{}

// SigningKeyReply is the public key of statements.
type SigningKeyReply struct {
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key" doc:"The key as base64"`
	PEM       string `json:"pem"`
}

func signingKey(_ context.Context, e Engine, _ access.Caller, _ SigningKeyRequest) (SigningKeyReply, error) {
	key, err := e.PublicKey()
	if err != nil {
		return SigningKeyReply{}, err
	}
	return SigningKeyReply{key.ID(), key.String(), key.PEM()}, nil
}
