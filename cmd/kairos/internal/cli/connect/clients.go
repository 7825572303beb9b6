package connect

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// client is an MCP client that finds its servers in a file.
type client struct {
	name, title string
	// file is where the client looks, relative to the home folder, or to the
	// working folder where it is a file of the project.
	file    string
	project bool
	format  format
	servers string // key of the table of servers
	stdio   func(command) entry
	http    func(url string) entry // nil: the client only starts servers
	then    string                 // what the person does next
}

// command is how a client starts the server.
type command struct {
	program string
	args    []string
	env     map[string]string // added to what the client passes on
}

// entry is what the configuration of a client says of one server. Each client
// uses the keys that it knows.
type entry struct {
	Type    string   `json:"type,omitempty" yaml:"type,omitempty" toml:"type,omitempty"`
	Source  string   `json:"source,omitempty" yaml:"source,omitempty" toml:"source,omitempty"`
	Name    string   `json:"name,omitempty" yaml:"name,omitempty" toml:"name,omitempty"`
	Command string   `json:"command,omitempty" yaml:"command,omitempty" toml:"command,omitempty"`
	Cmd     string   `json:"cmd,omitempty" yaml:"cmd,omitempty" toml:"cmd,omitempty"`
	Args    []string `json:"args,omitempty" yaml:"args,omitempty" toml:"args,omitempty"`
	// goose writes envs where the others write env.
	Env       map[string]string `json:"env,omitempty" yaml:"env,omitempty" toml:"env,inline,omitempty"`
	Envs      map[string]string `json:"envs,omitempty" yaml:"envs,omitempty" toml:"envs,inline,omitempty"`
	URL       string            `json:"url,omitempty" yaml:"url,omitempty" toml:"url,omitempty"`
	URI       string            `json:"uri,omitempty" yaml:"uri,omitempty" toml:"uri,omitempty"`
	HTTPURL   string            `json:"httpUrl,omitempty" yaml:"httpUrl,omitempty" toml:"httpUrl,omitempty"`
	ServerURL string            `json:"serverUrl,omitempty" yaml:"serverUrl,omitempty" toml:"serverUrl,omitempty"`
	Enabled   bool              `json:"enabled,omitempty" yaml:"enabled,omitempty" toml:"enabled,omitempty"`
	Timeout   int               `json:"timeout,omitempty" yaml:"timeout,omitempty" toml:"timeout,omitempty"` // seconds
}

// started returns the command of an entry; false: the server is reached at address.
func (e entry) started() (c command, ok bool) {
	c = command{program: e.Command + e.Cmd, args: e.Args, env: e.Env}
	if len(e.Envs) > 0 {
		c.env = e.Envs
	}
	return c, c.program != ""
}

// address of a server that the client does not start.
func (e entry) address() string { return e.URL + e.URI + e.HTTPURL + e.ServerURL }

func plain(c command) entry { return entry{Command: c.program, Args: c.args, Env: c.env} }

// clients are in the order of the help. Their formats are those of their manuals;
// docs/clients/README.md says which of them were tried.
var clients = []client{
	{name: "claude-code", title: "Claude Code", file: ".mcp.json", project: true, format: jsonc, servers: "mcpServers", stdio: plain,
		http: func(url string) entry { return entry{Type: "http", URL: url} },
		then: "Start claude in this folder and approve the server; /mcp lists its tools, and / your protocols."},
	{name: "claude-desktop", title: "Claude Desktop", file: claudeDesktop(runtime.GOOS), format: jsonc, servers: "mcpServers", stdio: plain,
		then: "Restart Claude Desktop."},
	{name: "cursor", title: "Cursor", file: ".cursor/mcp.json", format: jsonc, servers: "mcpServers", stdio: plain,
		http: func(url string) entry { return entry{URL: url} },
		then: "Open Cursor's settings, MCP, and enable the server."},
	{name: "vscode", title: "VS Code", file: ".vscode/mcp.json", project: true, format: jsonc, servers: "servers",
		stdio: func(c command) entry { return entry{Type: "stdio", Command: c.program, Args: c.args, Env: c.env} },
		http:  func(url string) entry { return entry{Type: "http", URL: url} },
		then:  "Open the folder in VS Code and choose Start above the server in .vscode/mcp.json."},
	{name: "codex", title: "Codex", file: ".codex/config.toml", format: toml, servers: "mcp_servers", stdio: plain,
		http: func(url string) entry { return entry{URL: url} },
		then: "Start codex; /mcp lists its tools."},
	{name: "gemini", title: "Gemini CLI", file: ".gemini/settings.json", format: jsonc, servers: "mcpServers", stdio: plain,
		http: func(url string) entry { return entry{HTTPURL: url} },
		then: "Start gemini; /mcp lists its tools, and / your protocols."},
	{name: "goose", title: "goose", file: ".config/goose/config.yaml", format: yaml, servers: "extensions",
		stdio: func(c command) entry {
			return entry{Type: "stdio", Name: serverName, Cmd: c.program, Args: c.args, Envs: c.env, Enabled: true, Timeout: 300}
		},
		http: func(url string) entry {
			return entry{Type: "streamable_http", Name: serverName, URI: url, Enabled: true, Timeout: 300}
		},
		then: "Start a new goose session."},
	{name: "zed", title: "Zed", file: ".config/zed/settings.json", format: jsonc, servers: "context_servers",
		stdio: func(c command) entry { return entry{Source: "custom", Command: c.program, Args: c.args, Env: c.env} },
		http:  func(url string) entry { return entry{URL: url} },
		then:  "Zed reads the file at once; the agent panel's settings list the server."},
	{name: "windsurf", title: "Windsurf", file: ".codeium/windsurf/mcp_config.json", format: jsonc, servers: "mcpServers", stdio: plain,
		http: func(url string) entry { return entry{ServerURL: url} },
		then: "Press refresh in Windsurf's list of MCP servers."},
}

// serverName is the key of this server in the configuration of a client.
const serverName = "kairos"

func claudeDesktop(system string) string {
	if system == "darwin" {
		return "Library/Application Support/Claude/claude_desktop_config.json"
	}
	return ".config/Claude/claude_desktop_config.json"
}

// path of the client's file.
func (c client) path(home, working string) string {
	if c.project {
		return filepath.Join(working, c.file)
	}
	return filepath.Join(home, c.file)
}

// entry returns what the client needs to start the server, or to reach url.
func (c client) entry(start command, url string) (entry, error) {
	switch {
	case url == "":
		return c.stdio(start), nil
	case c.http == nil:
		return entry{}, fmt.Errorf("%s starts servers itself and cannot reach one over HTTP: leave --http out", c.title)
	default:
		return c.http(url), nil
	}
}

func clientNamed(name string) (client, error) {
	i := slices.IndexFunc(clients, func(c client) bool { return c.name == name })
	if i < 0 {
		return client{}, fmt.Errorf("%q is not a client that kairos can configure: choose one of %s; for others, docs/clients/README.md shows what to write", name, strings.Join(names(), ", "))
	}
	return clients[i], nil
}

func names() []string {
	var out []string
	for _, c := range clients {
		out = append(out, c.name)
	}
	return out
}
