package operations

import (
	"context"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/library"
)

// Versions is the use cases about the versions of protocols. Implemented by *library.Library.
type Versions interface {
	History(ctx context.Context, c access.Caller, ref string) (library.HistoryReply, error)
	Version(ctx context.Context, c access.Caller, ref string, revision int64) (library.VersionReply, error)
	Restore(ctx context.Context, c access.Caller, ref string, revision int64) (library.RestoreReply, error)
}

// ProtocolRequest names a protocol.
type ProtocolRequest struct {
	Protocol string `json:"protocol" doc:"URI or UUID of a step, id of a protocol, or its exact title" min:"1"`
}

// RevisionRequest names a version of a protocol.
type RevisionRequest struct {
	ProtocolRequest

	Revision int64 `json:"revision,omitempty" doc:"Number of the version, from protocol_history" min:"1"`
}

// ProtocolHistory declares protocol_history.
var ProtocolHistory = api.Tool[ProtocolRequest, library.HistoryReply]{Declaration: api.Declaration{
	Name: "protocol_history", Title: "List the versions of a protocol", ReadOnly: true, Idempotent: true,
	Description: "List the versions of a protocol, newest first, also of a deleted one.",
}}

func protocolHistory(ctx context.Context, e Engine, c access.Caller, in ProtocolRequest) (library.HistoryReply, error) {
	return e.History(ctx, c, in.Protocol)
}

// ProtocolVersion declares protocol_version.
var ProtocolVersion = api.Tool[RevisionRequest, library.VersionReply]{Declaration: api.Declaration{
	Name: "protocol_version", Title: "Read a version of a protocol", ReadOnly: true, Idempotent: true,
	Description: "Read one version of a protocol as Markdown; without revision the newest one.",
}}

func protocolVersion(ctx context.Context, e Engine, c access.Caller, in RevisionRequest) (library.VersionReply, error) {
	return e.Version(ctx, c, in.Protocol, in.Revision)
}

// RestoreProtocol declares protocol_restore.
var RestoreProtocol = api.Tool[RevisionRequest, library.RestoreReply]{Declaration: api.Declaration{
	Name: "protocol_restore", Title: "Restore a version of a protocol", Idempotent: true,
	Description: "Store an old version of a protocol as the newest one; without revision the one before the newest, and of a deleted protocol the last one.",
}}

func restoreProtocol(ctx context.Context, e Engine, c access.Caller, in RevisionRequest) (library.RestoreReply, error) {
	return e.Restore(ctx, c, in.Protocol, in.Revision)
}
