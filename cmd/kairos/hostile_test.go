package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const greeting = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},` +
	`"clientInfo":{"name":"guest","version":"1"}}}`

// Names that clients choose make no lines of the log.
func TestNamesOfClientsMakeNoLines(t *testing.T) {
	b := withShippedDrivers(t, "")
	const evil = "x\n2026-01-01 level=INFO msg=forged\x1b[31mred\x1b[0m\u2028y"
	evilJSON, _ := json.Marshal(evil)
	b.do("POST", "/mcp", strings.Replace(greeting, `"guest"`, string(evilJSON), 1), nil)
	for _, tool := range []string{"kairos_search", "kairos_begin", "kairos_next", "kairos_delete", "kairos_dump", evil} {
		args := fmt.Sprintf(`{"query":%[1]s,"uri":%[1]s,"uris":[%[1]s],"space":%[1]s,"run_id":%[1]s,"markdown_doc":%[1]s}`, evilJSON)
		b.plain(tool, args)
		b.do("POST", "/api/kairos_search", args, map[string]string{"Traceparent": "00-msg=forged level=INFO", "User-Agent": "a msg=forged\tlevel=INFO\u2028", "X-Forwarded-For": "msg=forged"})
	}
	doc, _ := json.Marshal("# " + strings.ReplaceAll(evil, "\n", " ") + "\n\n## A\n\nx\n")
	b.plain("kairos_mint", fmt.Sprintf(`{"markdown_doc":%s,"llm_model_id":%s}`, doc, evilJSON))
	if log := b.stderr.String(); strings.Contains(log, "\x1b") || strings.Contains(log, "\n2026-01-01 level") || strings.Contains(log, "\u2028") {
		i := strings.IndexAny(log, "\x1b\u2028")
		t.Errorf("the log has what a client made up: %.400q", log[max(0, i-200):])
	}
}

// Of what a client says about itself, a session keeps a bounded copy, and what is far too
// long is refused before it is decoded.
func TestHandshakesDoNotFillTheMemory(t *testing.T) {
	const modern = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"guest","version":"1"}}}}`
	for name, tc := range map[string]struct{ calls, length, status, most int }{ // most MiB
		"refused": {12, 15 << 20, http.StatusBadRequest, 300},
		"kept":    {3000, 60 << 10, http.StatusOK, 120},
	} {
		t.Run(name, func(t *testing.T) {
			b := withShippedDrivers(t, "")
			before, text := b.peak(), strings.Repeat("x", tc.length)
			var all sync.WaitGroup
			for worker := range 2 {
				all.Go(func() {
					for i := range tc.calls / 2 {
						message, headers := greeting, map[string]string(nil)
						if tc.status == http.StatusBadRequest && i%4 == worker {
							message, headers = modern, map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
						}
						if a, err := b.try("POST", "/mcp", strings.Replace(message, "guest", text, 1), headers); err != nil || a.status != tc.status {
							t.Errorf("handshake = %d %.200s %v, want %d", a.status, a.body, err, tc.status)
							return
						}
					}
				})
			}
			all.Wait()
			if grown := (b.peak() - before) >> 20; grown > tc.most {
				t.Errorf("%d handshakes with a name of %d KiB took %d MiB", tc.calls, tc.length>>10, grown)
			}
			if a := b.do("POST", "/mcp", greeting, nil); a.status != http.StatusOK {
				t.Errorf("initialize after them = %d %s", a.status, a.body)
			}
		})
	}
}

// What is wrong with the files of TLS is said at the start, without their content.
func TestWrongFilesOfTLSAreNamed(t *testing.T) {
	dir := t.TempDir()
	secret := "-----BEGIN PRIVATE KEY-----\nc2VjcmV0LXNlY3JldA==\n-----END PRIVATE KEY-----\n"
	if err := os.WriteFile(filepath.Join(dir, "bad.pem"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bad.pem": "bad.pem", "none.pem": "no such file", ".": "is a directory"} {
		s := &served{t: t, dir: t.TempDir()}
		file := filepath.Join(dir, name)
		s.write("kairos.yaml", fmt.Sprintf("database: k.db\nadmin: {socket: a.sock}\ndrivers: {dir: %s}\nhttp: {tls: {cert: %s, key: %s}}\n", buildDrivers(t), file, file))
		out, err := s.program("serve", "--http", "127.0.0.1:0").CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "certificate") || strings.Contains(string(out), "c2VjcmV0") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
