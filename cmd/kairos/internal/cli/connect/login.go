package connect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
)

// Limits of what a server says about its login.
const (
	metadataTime  = 5 * time.Second
	metadataBytes = 64 << 10
)

// metadataPath is where a resource describes itself (RFC 9728), before its own path.
const metadataPath = "/.well-known/oauth-protected-resource"

// asked says what to do at a server that asks who calls. It fails unless the client can log in there.
func asked(ctx context.Context, cmd *cobra.Command, c client, at connection, refused error) error {
	if at.bearer {
		return fmt.Errorf("the server does not take the token in %s: ask its operator for another one (`kairos token create`)\n  %w", session.TokenEnv, refused)
	}
	issuer, err := loginAt(ctx, at.address)
	if err != nil {
		return fmt.Errorf("%w, and does not say where: %w", refused, err)
	}
	if issuer == "" {
		return fmt.Errorf("%w: it has no identity provider to log in at; its operator makes tokens (`kairos token create`), and --token-env has %s send one", refused, c.title)
	}
	output.Tell(cmd.OutOrStdout(), "The server asks for a login at %s, which %s does itself, not this command. %s\n", issuer, c.title, c.login)
	return nil
}

// loginAt is the authorization server of an MCP endpoint; empty: it has none.
func loginAt(ctx context.Context, endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	u.Path, u.RawQuery = metadataPath+strings.TrimRight(u.Path, "/"), ""
	ctx, cancel := context.WithTimeout(ctx, metadataTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	var about struct {
		Servers []string `json:"authorization_servers"`
	}
	err = json.NewDecoder(io.LimitReader(res.Body, metadataBytes)).Decode(&about)
	if err != nil || res.StatusCode != http.StatusOK {
		return "", cmp.Or(err, errors.New(u.String()+" replies "+res.Status))
	}
	return strings.Join(about.Servers, ", "), nil
}
