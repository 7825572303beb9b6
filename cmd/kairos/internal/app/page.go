package app

import (
	"bytes"
	"context"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/web/runpage"
)

// Page is one of the caller's runs as a web page, drawn on a tree.
func (a *App) Page(ctx context.Context, c access.Caller, id run.ID, tree decision.Outline) ([]byte, error) {
	line, err := a.Engine.Archive.Timeline(ctx, c, id)
	if err != nil {
		return nil, err
	}
	made, err := a.Engine.Archive.Decisions(ctx, c, id)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = runpage.Run{Timeline: line, Decisions: made, Tree: tree}.Page(&b)
	return b.Bytes(), err
}
