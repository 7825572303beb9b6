package session

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/core/api/client"
)

// operatorTime bounds a call of an operator, and dialTime its connection.
const (
	operatorTime = 5 * time.Minute
	dialTime     = 10 * time.Second
)

// operator returns a client for calls of operators, with the token of the server if it is
// one of this user on this machine; nil: it is not.
func (s Session) operator(ctx context.Context, address string) (*client.Client, error) {
	at, err := url.Parse(strings.TrimSpace(address)) // as client.New does
	if err != nil {
		return nil, fmt.Errorf("the address of the server: %w", err)
	}
	c, err := s.Load()
	if err != nil {
		c = s.Salvage() // the server has its own configuration
	}
	token, connect, err := app.OperatorToken(ctx, c, at)
	if err != nil || token == "" {
		return nil, err
	}
	return client.New(address, client.Token(token), onlyTo(connect))
}

// onlyTo connects to one address, whatever a name resolves to and whichever proxy is
// configured: the token is for the server that was found there.
func onlyTo(address string) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy, t.DisableKeepAlives = nil, true
	t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTime}).DialContext(ctx, network, address)
	}
	return &http.Client{Transport: t, Timeout: operatorTime}
}
