package connect

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
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
	login   string                 // and at a server that asks for a login
	// bearer refers to the token in session.TokenEnv, as this client does it. Nil: it sends what
	// its file says, so that the token itself would have to be there.
	bearer entry
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

// headers are sent with each request.
type headers map[string]any

// bearerHeader is the header with the token, of which the client takes the place of a reference.
func bearerHeader(reference string) setting {
	return set(headersKey, headers{"Authorization": "Bearer " + reference})
}

// The ways in which clients refer to a variable.
var (
	inBraces   = entry{bearerHeader("${" + session.TokenEnv + "}")}
	withDollar = entry{bearerHeader("$" + session.TokenEnv)}
	namedEnv   = entry{bearerHeader("${env:" + session.TokenEnv + "}")}
	openCodes  = entry{bearerHeader("{env:" + session.TokenEnv + "}")}
)

func httpAt(url string) entry { return entry{set("type", "http"), set("url", url)} }

// gooseTimeout is in seconds: a person takes time to answer.
const gooseTimeout = 300

// clients are in the order of the help. Their formats are those of their manuals;
// docs/clients/README.md says which of them were tried.
var clients = []client{
	{name: "claude-code", title: "Claude Code", file: ".mcp.json", project: true, format: jsonc, servers: "mcpServers", stdio: plain, http: httpAt,
		then:  "Start claude in this folder and approve the server; /mcp lists its tools, and / your protocols.",
		login: "Run claude mcp login kairos, or choose the server in /mcp.", bearer: inBraces},
	{name: "claude-desktop", title: "Claude Desktop", file: claudeDesktop(runtime.GOOS), format: jsonc, servers: "mcpServers", stdio: plain,
		then: "Restart Claude Desktop."},
	{name: "cursor", title: "Cursor", file: ".cursor/mcp.json", format: jsonc, servers: "mcpServers", stdio: plain, http: at("url"),
		then:  "Open Cursor's settings, MCP, and enable the server.",
		login: "Press the button to log in beside the server in Cursor's settings.", bearer: namedEnv},
	{name: "vscode", title: "VS Code", file: ".vscode/mcp.json", project: true, format: jsonc, servers: "servers",
		stdio: func(c command) entry { return starting(c, set("type", "stdio")) }, http: httpAt,
		then:  "Open the folder in VS Code and choose Start above the server in .vscode/mcp.json.",
		login: "VS Code opens the browser when the server starts.", bearer: namedEnv},
	{name: "codex", title: "Codex", file: ".codex/config.toml", format: toml, servers: "mcp_servers", stdio: plain, http: at("url"),
		then:  "Start codex; /mcp lists its tools.",
		login: "Run codex mcp login kairos.", bearer: entry{set("bearer_token_env_var", session.TokenEnv)}},
	{name: "gemini", title: "Gemini CLI", file: ".gemini/settings.json", format: jsonc, servers: "mcpServers", stdio: plain, http: at("httpUrl"),
		then:  "Start gemini; /mcp lists its tools, and / your protocols.",
		login: "Run /mcp auth kairos in gemini.", bearer: withDollar},
	{name: "goose", title: "goose", file: ".config/goose/config.yaml", format: yaml, servers: "extensions",
		stdio: func(c command) entry {
			return entry{set("type", "stdio"), set("name", serverName), set("cmd", c.program), set("args", c.args), env("envs", c), set("enabled", true), usually("timeout", gooseTimeout)}
		},
		http: func(url string) entry {
			return entry{set("type", "streamable_http"), set("name", serverName), set("uri", url), set("enabled", true), usually("timeout", gooseTimeout)}
		},
		then:  "Start a new goose session.",
		login: "goose opens the browser when the session starts.", bearer: append(entry{set("env_keys", []string{session.TokenEnv})}, inBraces...)},
	{name: "zed", title: "Zed", file: ".config/zed/settings.json", format: jsonc, servers: "context_servers",
		stdio: func(c command) entry { return starting(c, set("source", "custom")) }, http: at("url"),
		then:  "Zed reads the file at once; the agent panel's settings list the server.",
		login: "Press the button to log in beside the server in the agent panel's settings."},
	{name: "windsurf", title: "Windsurf", file: ".codeium/windsurf/mcp_config.json", format: jsonc, servers: "mcpServers", stdio: plain, http: at("serverUrl"),
		then:  "Press refresh in Windsurf's list of MCP servers.",
		login: "Windsurf opens the browser when it connects.", bearer: namedEnv},
	{name: "opencode", title: "opencode", file: ".config/opencode/opencode.json", format: jsonc, servers: "mcp", stdio: openCode, http: openCodeRemote,
		then:  "Start opencode; opencode mcp list shows the server.",
		login: "Run opencode mcp auth kairos.", bearer: openCodes},
	{name: "kilo", title: "Kilo", file: ".config/kilo/kilo.json", format: jsonc, servers: "mcp", stdio: openCode, http: openCodeRemote,
		then:  "Start kilo; kilo mcp list shows the server.",
		login: "Run kilo mcp auth kairos.", bearer: openCodes},
	{name: "qwen", title: "Qwen Code", file: ".qwen/settings.json", format: jsonc, servers: "mcpServers", stdio: plain, http: at("httpUrl"),
		then:  "Start qwen; /mcp lists its tools, and / your protocols.",
		login: "Choose the server in /mcp, and Authenticate.", bearer: withDollar},
	{name: "copilot", title: "Copilot CLI", file: ".copilot/mcp-config.json", format: jsonc, servers: "mcpServers",
		stdio: func(c command) entry { return append(starting(c, set("type", "local")), everyTool) },
		http:  func(url string) entry { return append(httpAt(url), everyTool) },
		then:  "Start copilot; /mcp lists its tools.",
		login: "Copilot opens the browser when it connects.", bearer: inBraces},
	{name: "cline", title: "Cline", file: ".cline/data/settings/cline_mcp_settings.json", format: jsonc, servers: "mcpServers",
		stdio: func(c command) entry { return append(plain(c), clineWaits) },
		http:  func(url string) entry { return entry{set("type", "streamableHttp"), set("url", url), clineWaits} },
		then:  "Start cline; it lists the server among its MCP servers.",
		login: "Choose the server in the list of MCP servers of cline, and authorize it."},
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

// remote is how a client reaches a server that runs.
type remote struct {
	url string
	// tokenEnv: with the token in session.TokenEnv, instead of a login of the client.
	tokenEnv bool
}

// entry returns what the client needs to start the server, or to reach the one at the address.
func (c client) entry(start command, at remote) (entry, error) {
	switch {
	case at.url == "":
		return c.stdio(start), nil
	case c.http == nil:
		return entry{}, fmt.Errorf("%s starts servers itself and cannot reach one over HTTP: leave --http out", c.title)
	case at.tokenEnv && c.bearer == nil:
		return entry{}, fmt.Errorf("%s cannot take a token from a variable: it would send the name. Leave --token-env out, and log in; "+
			"if the server has no identity provider, write the header Authorization into the client's file yourself", c.title)
	case at.tokenEnv:
		return slices.Concat(c.http(at.url), c.bearer), nil
	default:
		return c.http(at.url), nil
	}
}

// next is what the person does after the entry is written.
func (c client) next(at remote) string {
	switch {
	case at.url == "":
		return c.then
	case at.tokenEnv:
		return "Set " + session.TokenEnv + " to a token of `kairos token create` where the client is started; the file only names it.\n" + c.then
	case c.bearer == nil:
		return c.then + "\nIf the server asks for a login: " + c.login
	default:
		return c.then + "\nIf the server asks for a login: " + c.login + "\nIf it has tokens of its own instead: add --token-env to this command."
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
