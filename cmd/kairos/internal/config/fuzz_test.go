package config

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzConfiguration reads any file as kairos.yaml: it is taken or refused with
// a text that is not too long to read.
func FuzzConfiguration(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "[]", "x", "http: {listen: '127.0.0.1:0', rate: {per_minute: 1e9}}", "http: {session_idle: 9999999h}", "a: &a [*a]",
		"drivers: {dir: .}\nservers: {a: {url: 'http://u:p@h'}}", "http: {trusted_proxies: ['::1%eth0/64']}", "\xff", "? {a: b}\n: c",
		"embedding: {provider: openai, url: '://'}", "database: \x00", "log: {format: json}\nlog: {format: text}", "mcp: {plain_wait: -1s}",
		"qdrant: {url: x}\napproval: {trust_agent: maybe}\nuser_input: {driver: agent}",
	} {
		f.Add([]byte(seed))
	}
	file := filepath.Join(f.TempDir(), "kairos.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		at := &Source{File: file}
		if _, err := at.Load(); err != nil && len(err.Error()) > 20_000+4*len(text) {
			t.Errorf("the refusal has %d bytes", len(err.Error()))
		}
	})
}
