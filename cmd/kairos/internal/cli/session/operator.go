package session

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

// operator returns a client for calls of operators through the socket of the server at the
// address, if it is a server of this user on this machine; false: it is not.
func (s Session) operator(ctx context.Context, address string) (socket.Client, bool, error) {
	at, err := url.Parse(strings.TrimSpace(address)) // as client.New does
	if err != nil {
		return socket.Client{}, false, fmt.Errorf("the address of the server: %w", err)
	}
	c, err := s.Load()
	if err != nil {
		c = s.Salvage() // the server has its own configuration
	}
	own, ok := app.ServerAt(ctx, c, at)
	return own, ok, nil
}
