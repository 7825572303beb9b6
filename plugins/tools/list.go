package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// list is for `kairos tools`, which asks outside of any run what a server offers that starts
// where this driver is confined. Its reader is the operator, so it quotes the server.
func (t *tools) list(ctx context.Context, server string) driver.RenderResult {
	s, ok := t.file().Servers[server]
	if !ok {
		return driver.CannotRender(fmt.Sprintf("there is no server %q", server))
	}
	c, err := mcpclient.Open(ctx, server, s, mcpclient.Options{})
	if err != nil {
		return driver.CannotRender(err.Error())
	}
	found, err := c.Tools(ctx)
	_ = c.Close() // what it offers is known
	if err != nil {
		return driver.CannotRender(err.Error())
	}
	value, err := json.Marshal(mcpclient.Listed{Tools: found})
	if err != nil {
		return driver.CannotRender(err.Error())
	}
	return driver.RenderResult{Answer: &driver.Answer{Value: value, Provenance: driver.ServerObserved}}
}
