package connect

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var started = entry{set("command", "/opt/kairos"), set("args", []string{"--db", "/var/k.db", "serve"})}

// asWritten puts the entry over the one that the document has.
func (f format) asWritten(document []byte, servers string, e entry) ([]byte, error) {
	present, _, err := f.configured(document, servers)
	if err != nil {
		return nil, err
	}
	return f.put(document, servers, e.over(present))
}

// connectedBy is the connection that a document has.
func connectedBy(t *testing.T, f format, document []byte, servers string) connection {
	t.Helper()
	present, ok, err := f.configured(document, servers)
	if err != nil || !ok {
		t.Fatalf("%v, %v in\n%s", ok, err, document)
	}
	return connectionOf(present)
}

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
			got, err := tc.format.asWritten([]byte(tc.before), tc.servers, started)
			if err != nil || string(got) != tc.after {
				t.Fatalf("%v\n%s\nwant\n%s", err, got, tc.after)
			}
			again, err := tc.format.asWritten(got, tc.servers, started)
			if err != nil || string(again) != string(got) {
				t.Errorf("the second time changes the file: %v\n%s", err, again)
			}
			want, err := started.connection()
			if c := connectedBy(t, tc.format, got, tc.servers); err != nil || !reflect.DeepEqual(c, want) {
				t.Errorf("the file connects with %+v, want %+v (%v)", c, want, err)
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
			got, err := tc.format.asWritten([]byte(tc.document), tc.servers, started)
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
		changed, err := f.asWritten([]byte(document), "s", started)
		if err != nil {
			return
		}
		after, err := f.decode(changed)
		if err != nil {
			t.Fatal(err)
		}
		want, err := started.connection()
		if c := connectedBy(t, f, changed, "s"); err != nil || !c.is(want.command) {
			t.Fatalf("the entry is %+v, want %+v (%v)", c, want, err)
		}
		for key, v := range before {
			if key != "s" && !reflect.DeepEqual(after[key], v) {
				t.Errorf("%s became %v", key, after[key])
			}
		}
	})
}

// Each client reads its own keys. What is written is what the check compares with, so that it asks
// nobody about the program's own entry, and a second time nothing changes.
func TestWhatWasWrittenIsWhatIsChecked(t *testing.T) {
	for _, variables := range []map[string]string{nil, {}, {"KAIROS_TREE": "/etc/tree.yaml"}} {
		want := command{"/opt/kairos", []string{"serve", "--page"}, variables}
		for _, c := range clients {
			e, err := c.entry(want, remote{})
			if err != nil {
				t.Fatal(err)
			}
			own, err := e.connection()
			if err != nil {
				t.Fatal(err)
			}
			document, err := c.format.asWritten(nil, c.servers, e)
			if err != nil {
				t.Fatal(err)
			}
			read := connectedBy(t, c.format, document, c.servers)
			if !read.is(want) || !read.is(own.command) {
				t.Errorf("%s starts %+v, want %+v as is compared, %+v:\n%s", c.name, read, want, own, document)
			}
			if again, err := c.format.asWritten(document, c.servers, e); err != nil || string(again) != string(document) {
				t.Errorf("%s: writing again changes (%v)\n%s\nto\n%s", c.name, err, document, again)
			}
			if c.http == nil {
				if _, err := c.entry(want, remote{url: "http://x/mcp"}); err == nil || !strings.Contains(err.Error(), "leave --http out") {
					t.Errorf("%s over HTTP: %v", c.name, err)
				}
				continue
			}
			// From a command to an address, and nothing of the command stays.
			if document, err = c.format.asWritten(document, c.servers, c.http("http://x/mcp")); err != nil {
				t.Fatal(err)
			}
			if got := connectedBy(t, c.format, document, c.servers); got.address != "http://x/mcp" || got.program != "" || len(got.env) > 0 {
				t.Errorf("%s reaches %+v:\n%s", c.name, got, document)
			}
		}
	}
}

func TestWhatAPersonAddedStays(t *testing.T) {
	with := command{"/opt/kairos", []string{"serve", "--page"}, map[string]string{"KAIROS_TREE": "/new.yaml"}}
	for name, tc := range map[string]struct {
		client, before, after string
		kept, lost            []string
	}{
		"JSON": {
			"cline",
			`{"mcpServers": {"kairos": {"transport": {"type": "stdio", "command": "/old/kairos", "args": ["serve"], "env": {"MINE": "1", "KAIROS_TREE": "/old"}}, "timeout": 90, "alwaysAllow": ["kairos_next"]}}}`,
			`{"mcpServers": {"kairos": { "timeout": 90, "alwaysAllow": ["kairos_next"],
      "command": "/opt/kairos",
      "args": [
        "serve",
        "--page"
      ],
      "env": {
        "KAIROS_TREE": "/new.yaml",
        "MINE": "1"
      }
    }}}`,
			[]string{"alwaysAllow", "env MINE", "timeout"}, nil,
		},
		"JSON with comments": {
			"claude-code",
			"{\n  \"mcpServers\": {\n    \"kairos\": {\n      // mine\n      \"command\": \"kairos\", // old\n      \"args\": [\"serve\"],\n      \"env\": {\"MINE\": \"1\"},\n      \"timeout\": 9, // ms\n    },\n  },\n}\n",
			"{\n  \"mcpServers\": {\n    \"kairos\": {\n      // mine\n      \"command\": \"/opt/kairos\", // old\n      \"args\": [\n        \"serve\",\n        \"--page\"\n      ],\n      \"env\": {\n        \"KAIROS_TREE\": \"/new.yaml\",\n        \"MINE\": \"1\"\n      },\n      \"timeout\": 9, // ms\n    },\n  },\n}\n",
			[]string{"env MINE", "timeout"}, nil,
		},
		"TOML with tables of its own": {
			"codex",
			"[mcp_servers.kairos]\ncommand = \"/old/kairos\"\nargs = [\n  \"serve\",\n]\nstartup_timeout_sec = 20 # slow\n\n[mcp_servers.kairos.env]\nMINE = \"1\"\n\n[mcp_servers.kairos.tools.kairos_next]\napproval_mode = \"approve\"\n\n[tui]\na = 1\n",
			"[mcp_servers.kairos]\ncommand = '/opt/kairos'\nargs = ['serve', '--page']\nenv = {KAIROS_TREE = '/new.yaml', MINE = '1'}\nstartup_timeout_sec = 20 # slow\n\n[mcp_servers.kairos.tools.kairos_next]\napproval_mode = \"approve\"\n\n[tui]\na = 1\n",
			[]string{"env MINE", "startup_timeout_sec", "tools"}, nil,
		},
		"YAML": {
			"goose",
			"extensions:\n  kairos:\n    type: stdio\n    cmd: /old/kairos\n    args:\n    - serve\n    envs:\n      MINE: \"1\"\n      KAIROS_DRIVERS_DIR: /d\n    timeout: 900\n    bundled: false\nlast: 1\n",
			"extensions:\n  kairos:\n    type: stdio\n    name: kairos\n    cmd: /opt/kairos\n    args:\n      - serve\n      - --page\n    envs:\n      KAIROS_TREE: /new.yaml\n      MINE: \"1\"\n    enabled: true\n    timeout: 900\n    bundled: false\nlast: 1\n",
			[]string{"bundled", "envs MINE", "timeout"}, []string{"envs KAIROS_DRIVERS_DIR"},
		},
		"another program of this name": {
			"claude-code", `{"mcpServers": {"kairos": {"command": "sh", "env": {"LD_PRELOAD": "x"}, "timeout": 1}}}`,
			`{"mcpServers": {"kairos": {
      "command": "/opt/kairos",
      "args": [
        "serve",
        "--page"
      ],
      "env": {
        "KAIROS_TREE": "/new.yaml"
      }
    }}}`,
			nil, []string{"env LD_PRELOAD", "timeout"},
		},
		"an address before": {
			"opencode", `{"mcp": {"kairos": {"type": "remote", "url": "http://x/mcp", "enabled": false, "headers": {"A": "b"}, "timeout": 5000}}}`,
			`{"mcp": {"kairos": {"type": "local", "enabled": true, "timeout": 5000,
      "command": [
        "/opt/kairos",
        "serve",
        "--page"
      ],
      "environment": {
        "KAIROS_TREE": "/new.yaml"
      }
    }}}`,
			[]string{"timeout"}, []string{"headers"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := clientNamed(tc.client)
			if err != nil {
				t.Fatal(err)
			}
			e, err := c.entry(with, remote{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.format.asWritten([]byte(tc.before), c.servers, e)
			if err != nil || string(got) != tc.after {
				t.Fatalf("%v\n%s\nwant\n%s", err, got, tc.after)
			}
			if again, err := c.format.asWritten(got, c.servers, e); err != nil || string(again) != string(got) {
				t.Errorf("writing again changes it: %v\n%s", err, again)
			}
			before, _, err := c.format.configured([]byte(tc.before), c.servers)
			if err != nil {
				t.Fatal(err)
			}
			after, _, err := c.format.configured(got, c.servers)
			if err != nil {
				t.Fatal(err)
			}
			if kept, lost := keptAndLost(before, after); !reflect.DeepEqual(kept, tc.kept) || !reflect.DeepEqual(lost, tc.lost) {
				t.Errorf("kept %q and lost %q, want %q and %q", kept, lost, tc.kept, tc.lost)
			}
		})
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
			start := command{program: "/usr/local/bin/kairos", args: []string{"serve", "--page"}}
			if c.login != "" && !strings.Contains(text, "login](../how-to/log-in-agents.md): "+c.login) {
				t.Errorf("the page does not say how it logs in: %s", c.login)
			}
			for _, at := range []remote{{}, {url: defaultURL}, {url: defaultURL, tokenEnv: true}} {
				if at.url != "" && c.http == nil || at.tokenEnv && c.bearer == nil {
					continue
				}
				e, err := c.entry(start, at)
				if err != nil {
					t.Fatal(err)
				}
				document, err := c.format.encode(c.servers, e.filled())
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
