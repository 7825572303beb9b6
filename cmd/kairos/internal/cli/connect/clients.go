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

// set is a member of an entry.
func set(key string, value any) setting { return setting{key: key, value: value} }

// usually is a member that a person may have set otherwise.
func usually(key string, value any) setting { return setting{key: key, value: value, ifAbsent: true} }

// env are the variables of a command.
func env(key string, c command) setting {
	v := variables{}
	for name, value := range c.env {
		v[name] = value
	}
	return set(key, v)
}

// starting are the members of most clients.
func starting(c command, before ...setting) entry {
	return append(before, set("command", c.program), set("args", c.args), env("env", c))
}

func plain(c command) entry { return starting(c) }

// openCode is the entry of opencode and of the programs that are made from it.
func openCode(c command) entry {
	return entry{set("type", "local"), set("command", append([]string{c.program}, c.args...)), env("environment", c), set("enabled", true)}
}

func openCodeRemote(url string) entry {
	return entry{set("type", "remote"), set("url", url), set("enabled", true)}
}

// at is the entry of a client that needs only the address.
func at(key string) func(url string) entry {
	return func(url string) entry { return entry{set(key, url)} }
}

func httpAt(url string) entry { return entry{set("type", "http"), set("url", url)} }

// gooseTimeout is in seconds: a person takes time to answer.
const gooseTimeout = 300

// clients are in the order of the help. Their formats are those of their manuals;
// docs/clients/README.md says which of them were tried.
var clients = []client{
	{name: "claude-code", title: "Claude Code", file: ".mcp.json", project: true, format: jsonc, servers: "mcpServers", stdio: plain, http: httpAt,
		then: "Start claude in this folder and approve the server; /mcp lists its tools, and / your protocols."},
	{name: "claude-desktop", title: "Claude Desktop", file: claudeDesktop(runtime.GOOS), format: jsonc, servers: "mcpServers", stdio: plain,
		then: "Restart Claude Desktop."},
	{name: "cursor", title: "Cursor", file: ".cursor/mcp.json", format: jsonc, servers: "mcpServers", stdio: plain, http: at("url"),
		then: "Open Cursor's settings, MCP, and enable the server."},
	{name: "vscode", title: "VS Code", file: ".vscode/mcp.json", project: true, format: jsonc, servers: "servers",
		stdio: func(c command) entry { return starting(c, set("type", "stdio")) }, http: httpAt,
		then: "Open the folder in VS Code and choose Start above the server in .vscode/mcp.json."},
	{name: "codex", title: "Codex", file: ".codex/config.toml", format: toml, servers: "mcp_servers", stdio: plain, http: at("url"),
		then: "Start codex; /mcp lists its tools."},
	{name: "gemini", title: "Gemini CLI", file: ".gemini/settings.json", format: jsonc, servers: "mcpServers", stdio: plain, http: at("httpUrl"),
		then: "Start gemini; /mcp lists its tools, and / your protocols."},
	{name: "goose", title: "goose", file: ".config/goose/config.yaml", format: yaml, servers: "extensions",
		stdio: func(c command) entry {
			return entry{set("type", "stdio"), set("name", serverName), set("cmd", c.program), set("args", c.args), env("envs", c), set("enabled", true), usually("timeout", gooseTimeout)}
		},
		http: func(url string) entry {
			return entry{set("type", "streamable_http"), set("name", serverName), set("uri", url), set("enabled", true), usually("timeout", gooseTimeout)}
		},
		then: "Start a new goose session."},
	{name: "zed", title: "Zed", file: ".config/zed/settings.json", format: jsonc, servers: "context_servers",
		stdio: func(c command) entry { return starting(c, set("source", "custom")) }, http: at("url"),
		then: "Zed reads the file at once; the agent panel's settings list the server."},
	{name: "windsurf", title: "Windsurf", file: ".codeium/windsurf/mcp_config.json", format: jsonc, servers: "mcpServers", stdio: plain, http: at("serverUrl"),
		then: "Press refresh in Windsurf's list of MCP servers."},
	{name: "opencode", title: "opencode", file: ".config/opencode/opencode.json", format: jsonc, servers: "mcp", stdio: openCode, http: openCodeRemote,
		then: "Start opencode; opencode mcp list shows the server."},
	{name: "kilo", title: "Kilo", file: ".config/kilo/kilo.json", format: jsonc, servers: "mcp", stdio: openCode, http: openCodeRemote,
		then: "Start kilo; kilo mcp list shows the server."},
	{name: "qwen", title: "Qwen Code", file: ".qwen/settings.json", format: jsonc, servers: "mcpServers", stdio: plain, http: at("httpUrl"),
		then: "Start qwen; /mcp lists its tools, and / your protocols."},
	{name: "copilot", title: "Copilot CLI", file: ".copilot/mcp-config.json", format: jsonc, servers: "mcpServers",
		stdio: func(c command) entry { return append(starting(c, set("type", "local")), everyTool) },
		http:  func(url string) entry { return append(httpAt(url), everyTool) },
		then:  "Start copilot; /mcp lists its tools."},
	{name: "cline", title: "Cline", file: ".cline/data/settings/cline_mcp_settings.json", format: jsonc, servers: "mcpServers",
		stdio: func(c command) entry { return append(plain(c), clineWaits) },
		http:  func(url string) entry { return entry{set("type", "streamableHttp"), set("url", url), clineWaits} },
		then:  "Start cline; it lists the server among its MCP servers."},
}

// everyTool: Copilot shows only the tools that are listed.
var everyTool = usually("tools", []string{"*"})

// clineWaits is in seconds: without it Cline gives a server three to start, and then works
// without it.
var clineWaits = usually("timeout", 60)

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
