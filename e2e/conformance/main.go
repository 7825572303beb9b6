//go:build conformance

// Command conformance serves the tools of the official conformance suite on the
// main port of KAIROS: its guards and its MCP endpoint. It prints its address
// and ends with its stdin.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

const principal, space = "local", "space:conformance"

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	if err := serve(ctx, log); err != nil {
		log.Error("conformance fixture", "error", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, log *slog.Logger) error {
	s, err := mcpserver.NewFixture(mcpserver.Config{
		Version: "v0.0.0", ChallengeTypes: func() []string { return []string{"none"} }, Principal: principal, Space: space,
	}, log)
	if err != nil {
		return err
	}
	api, err := rest.New(rest.Config{
		Version: "v0.0.0", Engine: unused{}, MCP: s.HTTP(), Principal: principal, Space: space,
		Check: s.Check, Access: rest.Access{Local: true},
	}, log)
	if err != nil {
		return err
	}
	return rest.Serve(ctx, rest.Listen{
		Address:  "127.0.0.1:0",
		Started:  func(at net.Addr) { fmt.Printf("http://%s/mcp\n", at) },
		Draining: func() { api.Drain(); _ = s.Close() },
	}, api, log)
}

// unused is the engine of a REST mirror that nobody calls.
type unused struct{ rest.Engine }
