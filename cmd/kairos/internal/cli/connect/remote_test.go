package connect

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
)

const (
	secret   = "krs_secretOfThisShell"
	teamsURL = "https://kairos.example.org/mcp"
)

// connects runs the command in a folder of its own and returns what it printed, on both streams.
func connects(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := Command(&session.Session{})
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestNoTokenIsWritten: what is written for a server that runs has the address, and at most the
// name of a variable; and what is printed says how the client gets in.
func TestNoTokenIsWritten(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv(session.TokenEnv, secret)
	for _, c := range clients {
		if c.http == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), filepath.Base(c.file))
			write := func(more ...string) (document, said string) {
				t.Helper()
				said, err := connects(t, append([]string{c.name, "--http", teamsURL, "--write", "--file", file}, more...)...)
				if err != nil {
					t.Fatal(err)
				}
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(b)+said, secret) {
					t.Fatalf("the token of this shell is in\n%s%s", b, said)
				}
				return string(b), said
			}
			login, said := write()
			if !strings.Contains(login, teamsURL) || strings.Contains(login, session.TokenEnv) || strings.Contains(login, "Bearer") {
				t.Errorf("for a login the file has\n%s\nwant the address alone", login)
			}
			if c.login == "" || !strings.Contains(said, "If the server asks for a login: "+c.login) {
				t.Errorf("it says\n%s\nand not how to log in", said)
			}
			if c.bearer == nil {
				if _, err := connects(t, c.name, "--http", teamsURL, "--token-env"); err == nil || !strings.Contains(err.Error(), "cannot take a token from a variable") {
					t.Errorf("with --token-env: %v", err)
				}
				return
			}
			with, said := write("--token-env")
			if strings.Count(with, session.TokenEnv) == 0 || !strings.Contains(said, "Set "+session.TokenEnv+" to a token") {
				t.Errorf("with --token-env the file has\n%s\nand it says\n%s", with, said)
			}
			if read := connectedBy(t, c.format, []byte(with), c.servers); !read.bearer || read.address != teamsURL {
				t.Errorf("what is checked is %+v, want %s with the token\n%s", read, teamsURL, with)
			}
			if again, said := write("--token-env"); again != with || !strings.Contains(said, "Nothing was changed") {
				t.Errorf("writing again: %s\n%s", said, again)
			}
			if back, _ := write(); connectedBy(t, c.format, []byte(back), c.servers).bearer || strings.Contains(back, session.TokenEnv) {
				t.Errorf("back to a login the file has\n%s", back)
			}
		})
	}
}

func TestHeadersOfAPersonStayBesideTheToken(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"kairos": {"url": "`+teamsURL+`", "headers": {"X-Team": "wiki", "authorization": "Bearer old"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := connects(t, "cursor", "--http", teamsURL, "--token-env", "--write", "--file", file); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(b); !strings.Contains(text, `"X-Team": "wiki"`) || !strings.Contains(text, `"Bearer ${env:KAIROS_BEARER_TOKEN}"`) || strings.Contains(text, "old") {
		t.Errorf("the file has\n%s\nwant the person's header and the reference", text)
	}
}

func TestATokenIsForAServerThatRuns(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	if _, err := connects(t, "cursor", "--token-env"); err == nil || !strings.Contains(err.Error(), "add --http") {
		t.Errorf("--token-env without --http: %v", err)
	}
}
