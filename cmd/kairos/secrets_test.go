package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
)

// Secrets that may appear only where they belong. Each is a unique word.
const (
	embeddingSecret = "embkeyzebra4711"
	qdrantSecret    = "qdkeywalrus4712"
	variableSecret  = "envfromyak4713"
	settingSecret   = "settingokapi4714"
	bearerSecret    = "bearertapir4715"
	answerSecret    = "answerlemur4716"
)

// heard is everything that a server and its commands say.
type heard struct {
	t     *testing.T
	texts map[string]string
}

// lacks fails the test where the text has one of the secrets.
func (h heard) lacks(secrets ...string) {
	h.t.Helper()
	for where, text := range h.texts {
		for _, secret := range secrets {
			if at := strings.Index(text, secret); at >= 0 {
				h.t.Errorf("%s shows %s: %s", where, secret, text[max(0, at-200):min(len(text), at+60)])
			}
		}
	}
}

// address waits until the server says where it serves something.
func (s *served) address(what string) string {
	s.t.Helper()
	says := regexp.MustCompile(`kairos: .*` + what + ` at (http://[^/ ]+)`)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if m := says.FindStringSubmatch(s.stderr.String()); m != nil {
			return m[1]
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("no address of %s:\n%s", what, s.stderr.String())
		}
	}
}

// ask makes an HTTP request with a credential that nobody checks yet.
func ask(t *testing.T, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bearerSecret)
	req.Header.Set("Cookie", "kairos_session="+bearerSecret)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %v %s", res.StatusCode, res.Header, b)
}

// misbehave submits a private answer in ways that are right and wrong.
func misbehave(s *served, url string, replies map[string]string) {
	begun := s.client.opens(oneCommand)
	uri := begun.CurrentStep.URI
	for name, solution := range map[string]map[string]any{
		"wrong nonce": {"type": "shell", "nonce": answerSecret, "shell": map[string]any{"exit_code": 0, "stdout": answerSecret}},
		"wrong type":  {"type": "comment", "nonce": begun.Challenge.Nonce, "comment": map[string]any{"text": answerSecret}},
		"wrong form":  {"type": "shell", "nonce": begun.Challenge.Nonce, "proof_hash": begun.Challenge.ProofHash, "shell": map[string]any{"exit_code": answerSecret}},
		"failed": {
			"type": "shell", "nonce": begun.Challenge.Nonce, "proof_hash": begun.Challenge.ProofHash,
			"shell": map[string]any{"exit_code": 1, "stdout": answerSecret, "stderr": answerSecret},
		},
		"right": {
			"type": "shell", "nonce": begun.Challenge.Nonce, "proof_hash": begun.Challenge.ProofHash,
			"shell": map[string]any{"exit_code": 0, "stdout": answerSecret, "stderr": answerSecret},
		},
	} {
		body, err := json.Marshal(map[string]any{"uri": uri, "solution": solution})
		if err != nil {
			s.t.Fatal(err)
		}
		replies[name] = ask(s.t, http.MethodPost, url+"/api/kairos_next?token="+bearerSecret, string(body))
	}
}

// gated is a protocol whose step waits for a person whom nobody can ask.
var gated = strings.Replace(oneCommand, `"type":"shell"`, `"type":"shell","approval_mode":"user"`, 1)

// waiting matches the line of the log that says so.
var waiting = regexp.MustCompile(`"msg":"step waits","run":"[0-9a-f-]{36}","step":1,.*"trace_id":"[0-9a-f]{32}"`)

func TestSecretsAreShownNowhere(t *testing.T) {
	endpoint := embedtest.Start(embedtest.Options{Key: embeddingSecret})
	defer endpoint.Close()
	s := newServed(t)
	s.lock()
	s.configure(fmt.Sprintf(`log: {level: debug, format: json}
embedding: {url: %q, model: m, api_key_file: %q}
drivers:
  dir: .
  settings: {shell: {env_from: [DRIVER_TOKEN]}}
metrics: {listen: "127.0.0.1:0"}
`, endpoint.URL(), s.path("embedding.key")))
	s.write("embedding.key", embeddingSecret)
	config, err := os.ReadFile(s.path("kairos.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("kairos.yaml", strings.Replace(string(config), "drivers: {dir: .}\n", "", 1))
	for name, value := range map[string]string{"DRIVER_TOKEN": variableSecret, "LOG_LEVEL": "debug", "QDRANT_API_KEY": qdrantSecret} {
		t.Setenv(name, value)
	}
	s.logLevel = "debug"
	s.start("--http=127.0.0.1:0", "--stdio")
	url, metrics := s.address("MCP"), s.address("metrics")

	replies := make(map[string]string)
	misbehave(s, url, replies)
	s.client.opens(gated)
	endpoint.Behave(embedtest.Behaviour{Fault: embedtest.Refusing}) // repeats the key
	everywhere := heard{t, map[string]string{
		"search":       ask(t, http.MethodPost, url+"/api/kairos_search", `{"query":"anything"}`),
		"bad JSON":     ask(t, http.MethodPost, url+"/api/kairos_search", `{"query":`),
		"mcp":          ask(t, http.MethodPost, url+"/mcp?token="+bearerSecret, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`),
		"no such path": ask(t, http.MethodGet, url+"/nothing?token="+bearerSecret, ""),
		"health":       ask(t, http.MethodGet, url+"/health", ""),
		"readyz":       ask(t, http.MethodGet, url+"/readyz", ""),
		"metrics":      ask(t, http.MethodGet, metrics+"/metrics", ""),
	}}
	for _, args := range [][]string{
		{"config", "check"}, {"doctor"}, {"driver", "list"}, {"driver", "info", "shell"}, {"driver", "logs", "shell"}, {"driver", "info", "shell", "-o", "json"},
	} {
		out, _ := s.program(args...).CombinedOutput() // doctor fails, and is to: the endpoint does
		everywhere.texts["kairos "+strings.Join(args, " ")] = string(out)
	}
	key, err := os.ReadFile(s.path("data/state.key"))
	secrets := []string{embeddingSecret, variableSecret, qdrantSecret, bearerSecret}
	if err == nil {
		secrets = append(secrets, strings.TrimSpace(string(key)))
	}
	everywhere.texts["the log"] = s.stderr.String()
	everywhere.lacks(append(secrets, answerSecret)...)
	heard{t, replies}.lacks(secrets...) // the answer is the asker's own
	if log := s.stderr.String(); !strings.Contains(log, `"level":"DEBUG"`) || !waiting.MatchString(log) {
		t.Errorf("the log is not at level debug, or does not say which step of which run waits, and in which call:\n%s", log)
	}
}

func TestKeysHideThemselvesInEveryForm(t *testing.T) {
	key := client.Secret(qdrantSecret)
	encoded, err := json.Marshal(map[string]any{"key": key, "options": client.Options{APIKey: key}})
	if err != nil {
		t.Fatal(err)
	}
	heard{t, map[string]string{
		"JSON": string(encoded), "%v": fmt.Sprintf("%v %+v %#v %s %q", key, client.Options{APIKey: key}, key, key, key),
	}}.lacks(qdrantSecret)
}
