package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestInspectorLogsIn lets the OAuth code of the official Inspector find the identity provider
// and log a person in. The test is the person, at the address that the Inspector prints. The next
// process of the Inspector continues with the token that this one has kept.
func TestInspectorLogsIn(t *testing.T) {
	requireNode(t)
	bin := built(t)
	fetchClients(t)
	node := newNode(t)
	s := serverWithProvider(t, bin)
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			i := inspector{node: node, target: []string{s.URL() + "/mcp"}, era: era, env: append(ownEnv(t.TempDir()), "MCP_INSPECTOR_SECRET_STORE=file")}
			i.logsIn(t, "ada")
			var listed struct{ Tools []struct{ Name string } }
			i.run(t, &listed, "--method", "tools/list", "--stored-auth-only")
			if len(listed.Tools) != 9 {
				t.Errorf("with the kept token the Inspector lists %d tools, want 9", len(listed.Tools))
			}
			var spaces struct{ Content []struct{ Text string } }
			i.run(t, &spaces, "--method", "tools/call", "--tool-name", "kairos_spaces", "--stored-auth-only")
			if text := fmt.Sprint(spaces); !strings.Contains(text, "user:acme:ada") || !strings.Contains(text, "group:acme:sre") {
				t.Errorf("the Inspector sees %s, want ada's spaces", text)
			}
		})
	}
}

// logsIn runs the Inspector without a token and is the person whom it sends to the provider.
func (i inspector) logsIn(t *testing.T, person string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), inspectTimeout)
	defer cancel()
	file := filepath.Join(t.TempDir(), "result.json")
	cmd := exec.CommandContext(ctx, i.node, "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli", "--method", "tools/list",
		"--client-id", "agent", "--callback-url", "http://"+freeAddress(t)+"/oauth/callback", "--protocol-era", i.era, "--output", file, "--", i.target[0])
	cmd.Env = append(slices.Clone(i.env), "MCP_AUTO_OPEN_ENABLED=true", "BROWSER=true") // without a terminal it demands to open a browser
	said, say := io.Pipe()
	cmd.Stdout, cmd.Stderr = say, say
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		_ = say.Close()
		ended <- err
	}()
	var all strings.Builder
	var failed error
	for lines := bufio.NewScanner(said); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if at, ok := strings.CutPrefix(lines.Text(), "Please navigate to: "); ok {
			if failed = logInAt(ctx, at, person); failed != nil {
				cancel()
			}
		}
	}
	_, _ = io.Copy(io.Discard, said) // what a line that is too long has left, so that it ends
	if err := errors.Join(failed, <-ended); err != nil {
		t.Fatalf("the login: %v\n%s", err, all.String())
	}
	text, err := os.ReadFile(file)
	var listed struct{ Tools []struct{ Name string } }
	if err != nil || json.Unmarshal(text, &listed) != nil || len(listed.Tools) != 9 {
		t.Fatalf("after the login the Inspector has %s (%v), want 9 tools\n%s", text, err, all.String())
	}
}

// logInAt opens the provider's page, fills in its form, and follows it back to the client.
func logInAt(ctx context.Context, at, person string) error {
	page, err := get(ctx, at)
	if err != nil {
		return fmt.Errorf("open the provider: %w", err)
	}
	form := url.Values{"id": {page.Query().Get("id")}, "username": {person}, "password": {"password"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, page.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req) // which follows it to the client
	if err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("after the login %s replies %s", res.Request.URL, res.Status)
	}
	return nil
}

// get opens an address and returns where it led.
func get(ctx context.Context, at string) (*url.URL, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	return res.Request.URL, res.Body.Close()
}

// freeAddress is an address of this machine that nothing listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // to be free for the client
	return l.Addr().String()
}
