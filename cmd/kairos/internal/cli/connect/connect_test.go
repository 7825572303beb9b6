package connect

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var started = entry{Command: "/opt/kairos", Args: []string{"--db", "/var/k.db", "serve"}}

func TestEverythingElseInTheFileStays(t *testing.T) {
	for name, tc := range map[string]struct {
		format        format
		servers       string
		before, after string
	}{
		"no file": {jsonc, "mcpServers", "", "{\n  \"mcpServers\": {\n    \"kairos\": {\n      \"command\": \"/opt/kairos\",\n      \"args\": [\n        \"--db\",\n        \"/var/k.db\",\n        \"serve\"\n      ]\n    }\n  }\n}\n"},
		"comments and a trailing comma": {
			jsonc, "context_servers",
			"// my settings\n{\n    \"theme\": \"dark\", // at night\n    \"context_servers\": {\n        \"other\": {\"command\": \"x\"}, // mine\n    },\n}\n",
			"// my settings\n{\n    \"theme\": \"dark\", // at night\n    \"context_servers\": {\n        \"other\": {\"command\": \"x\"}, // mine\n        \"kairos\": {\n            \"command\": \"/opt/kairos\",\n            \"args\": [\n                \"--db\",\n                \"/var/k.db\",\n                \"serve\"\n            ]\n        },\n    },\n}\n",
		},
		"another entry of this server": {
			jsonc, "servers", `{"servers": {"kairos": {"command": "old", "env": {"A": "b"}}, "z": 1}}`,
			"{\"servers\": {\"kairos\": {\n      \"command\": \"/opt/kairos\",\n      \"args\": [\n        \"--db\",\n        \"/var/k.db\",\n        \"serve\"\n      ]\n    }, \"z\": 1}}",
		},
		"TOML, appended": {
			toml, "mcp_servers", "# mine\nmodel = \"o\"\n\n[mcp_servers.other]\ncommand = \"x\" # y\n",
			"# mine\nmodel = \"o\"\n\n[mcp_servers.other]\ncommand = \"x\" # y\n\n[mcp_servers.kairos]\ncommand = '/opt/kairos'\nargs = ['--db', '/var/k.db', 'serve']\n",
		},
		"TOML, replaced": {
			toml, "mcp_servers", "[mcp_servers.kairos]\ncommand = \"old\"\n\n# next\n[tui]\na = 1\n",
			"[mcp_servers.kairos]\ncommand = '/opt/kairos'\nargs = ['--db', '/var/k.db', 'serve']\n\n# next\n[tui]\na = 1\n",
		},
		"TOML, replaced with its own table": {
			toml, "mcp_servers", "[mcp_servers.kairos]\ncommand = \"old\"\n[mcp_servers.kairos.env]\nA = \"b\"\n[mcp_servers.kairosity]\na = 1\n",
			"[mcp_servers.kairos]\ncommand = '/opt/kairos'\nargs = ['--db', '/var/k.db', 'serve']\n[mcp_servers.kairosity]\na = 1\n",
		},
		"YAML, first below the table": {
			yaml, "extensions", "GOOSE_MODEL: m # best\nextensions:\n  developer:\n    enabled: true\n",
			"GOOSE_MODEL: m # best\nextensions:\n  kairos:\n    command: /opt/kairos\n    args:\n      - --db\n      - /var/k.db\n      - serve\n  developer:\n    enabled: true\n",
		},
		"YAML, replaced": {
			yaml, "extensions", "extensions:\n  kairos:\n    cmd: old\n    args:\n    - x\n  b: {enabled: true}\nlast: 1\n",
			"extensions:\n  kairos:\n    command: /opt/kairos\n    args:\n      - --db\n      - /var/k.db\n      - serve\n  b: {enabled: true}\nlast: 1\n",
		},
		"YAML, no table":       {yaml, "extensions", "a: 1\n", "a: 1\nextensions:\n  kairos:\n    command: /opt/kairos\n    args:\n      - --db\n      - /var/k.db\n      - serve\n"},
		"YAML, an empty table": {yaml, "extensions", "extensions: {}\na: 1\n", "extensions:\n  kairos:\n    command: /opt/kairos\n    args:\n      - --db\n      - /var/k.db\n      - serve\na: 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.format.put([]byte(tc.before), tc.servers, started)
			if err != nil || string(got) != tc.after {
				t.Fatalf("%v\n%s\nwant\n%s", err, got, tc.after)
			}
			again, err := tc.format.put(got, tc.servers, started)
			if err != nil || string(again) != string(got) {
				t.Errorf("the second time changes the file: %v\n%s", err, again)
			}
			e, ok, err := tc.format.configured(got, tc.servers)
			if !ok || err != nil || !reflect.DeepEqual(e, started) {
				t.Errorf("the file connects with %+v, %v, %v", e, ok, err)
			}
		})
	}
}

func TestAFileThatIsNotUnderstoodIsLeftAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		format   format
		servers  string
		document string
		says     string
	}{
		"not JSON":            {jsonc, "mcpServers", `{"a": `, "not valid JSON"},
		"a list":              {jsonc, "mcpServers", `[1]`, "not valid JSON"},
		"servers in a list":   {jsonc, "mcpServers", `{"mcpServers": []}`, "not a table of servers"},
		"not TOML":            {toml, "mcp_servers", "a = = 1", "not valid TOML"},
		"an inline table":     {toml, "mcp_servers", "mcp_servers = {other = {command = \"x\"}}\n", "cannot be changed safely"},
		"not YAML":            {yaml, "extensions", "a: [", "not valid YAML"},
		"servers in one line": {yaml, "extensions", "extensions: {developer: {enabled: true}}\n", "cannot be changed safely"},
		"a table with lines":  {toml, "mcp_servers", "text = \"\"\"\n[mcp_servers.kairos]\n\"\"\"\n", "cannot be changed safely"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.format.put([]byte(tc.document), tc.servers, started)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("%v, want %q\n%s", err, tc.says, got)
			}
		})
	}
}

// put adds the entry to the document and changes nothing else, or it fails.
func FuzzPut(f *testing.F) {
	formats := []format{jsonc, toml, yaml}
	for i, seed := range []string{`{"s": {"a": 1,},} // x`, "[s.kairos]\na = 1\n[b]\n", "s:\n  kairos:\n    a: 1\n  b: 2\n", "s: ~\n", "s:\n# c\n", "'s':\n  a: 1\n", "s:\n\tx"} {
		f.Add(seed, byte(min(i, 2)))
	}
	f.Fuzz(func(t *testing.T, document string, which byte) {
		f := formats[int(which)%len(formats)]
		before, err := f.decode([]byte(document))
		if err != nil || strings.TrimSpace(document) == "" {
			return
		}
		changed, err := f.put([]byte(document), "s", started)
		if err != nil {
			return
		}
		after, err := f.decode(changed)
		if err != nil {
			t.Fatal(err)
		}
		e, ok, err := f.configured(changed, "s")
		if err != nil || !ok || !reflect.DeepEqual(e, started) {
			t.Fatalf("the entry is %+v, %v, %v", e, ok, err)
		}
		for key, v := range before {
			if key != "s" && !reflect.DeepEqual(after[key], v) {
				t.Errorf("%s became %v", key, after[key])
			}
		}
	})
}

// Each client reads its own keys; what it starts is the same.
func TestEveryClientStartsTheServerWithItsVariables(t *testing.T) {
	want := command{"/opt/kairos", []string{"serve"}, map[string]string{"KAIROS_TREE": "/etc/tree.yaml"}}
	for _, name := range names() {
		c, err := clientNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.entry(want, "")
		if err != nil {
			t.Fatal(err)
		}
		document, err := c.format.put(nil, c.servers, e)
		if err != nil {
			t.Fatal(err)
		}
		read, ok, err := c.format.configured(document, c.servers)
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v in %s", c.name, ok, err, document)
		}
		if got, ok := read.started(); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s starts %+v, want %+v:\n%s", c.name, got, want, document)
		}
		if c.http == nil {
			if _, err := c.entry(want, "http://x/mcp"); err == nil || !strings.Contains(err.Error(), "leave --http out") {
				t.Errorf("%s over HTTP: %v", c.name, err)
			}
			continue
		}
		if got := c.http("http://x/mcp"); got.address() != "http://x/mcp" {
			t.Errorf("%s reaches %q", c.name, got.address())
		}
	}
}

// Two changes within a second keep both files before them.
func TestACopyReplacesNoCopy(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "mcp.json"), time.Date(2026, 3, 5, 9, 0, 0, 0, time.UTC)
	versions := []string{"first", "second", "third"}
	if err := os.WriteFile(path, []byte(versions[0]), 0o640); err != nil {
		t.Fatal(err)
	}
	for i, before := range versions[:2] {
		backup, err := writeDocument(path, []byte(before), []byte(versions[i+1]), now)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			kept, err := os.ReadFile(backup)
			if err != nil || string(kept) != before {
				t.Errorf("the copy %s has %q, %v, want %q", backup, kept, err, before)
			}
		}()
	}
}

// TestThePageOfAClientShowsWhatIsWritten compares docs/clients with the entries that
// the command writes.
func TestThePageOfAClientShowsWhatIsWritten(t *testing.T) {
	index := page(t, "README")
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			text := page(t, c.name)
			if !strings.Contains(index, "]("+c.name+".md)") {
				t.Errorf("docs/clients/README.md does not list %s.md", c.name)
			}
			if !strings.Contains(text, filepath.Base(c.file)+"`") {
				t.Errorf("the page does not name the file %s", c.file)
			}
			start := command{program: "/usr/local/bin/kairos", args: []string{"serve"}}
			for _, address := range []string{"", defaultURL} {
				if address != "" && c.http == nil {
					continue
				}
				e, err := c.entry(start, address)
				if err != nil {
					t.Fatal(err)
				}
				document, err := c.format.encode(c.servers, e)
				if err != nil {
					t.Fatal(err)
				}
				fence := strings.ToLower(c.format.name)
				want := "```" + fence + "\n" + strings.TrimRight(string(document), "\n") + "\n```\n"
				if !strings.Contains(text, want) {
					t.Errorf("docs/clients/%s.md does not have\n%s", c.name, want)
				}
			}
		})
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../../../docs/clients", name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
