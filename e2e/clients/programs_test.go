package clients_test

import (
	"path/filepath"
)

// program is an agent program that is tested, and how it is started without a person.
type program struct {
	name, title string
	ci          bool // CI plays it
	// packages of npm in their tested versions; the first has the program.
	packages []string
	// scripts says that npm may run the scripts of the packages: some fetch their
	// binary with one.
	scripts bool
	bin     string
	// client is its name for kairos connect.
	client string
	// file has its servers below the key servers, relative to the home folder, or to
	// the project where inProject says so.
	file      string
	inProject bool
	servers   string
	// waits is added to the entry of KAIROS, so that a busy machine has time to start it
	// before the first request.
	waits string
	// own is what the file says beside its servers, as the person set the program up.
	own map[string]any
	// local is the entry of a server that the program starts.
	local func(command []string) map[string]any
	// args and env start it with a request. The variables name the model.
	args func(s *session, request string) []string
	env  func(model string) []string
	// before starts are commands that set the program up.
	setUp func(s *session, model string) [][]string
	// menu is how its slash menu starts a protocol without a person: a request, and
	// options. Nil: it has no such way.
	menu func(prompt, words string) []string
}

func plain(command []string) map[string]any {
	return map[string]any{"command": command[0], "args": command[1:]}
}

func slash(prompt, words string) []string { return []string{"/" + prompt + " " + words} }

// byOption is the menu of opencode and Kilo.
func byOption(prompt, words string) []string { return []string{words, "--command", "kairos:" + prompt} }

func openAI(model string) []string {
	return []string{"OPENAI_BASE_URL=" + model + "/v1", "OPENAI_API_KEY=any", "OPENAI_MODEL=fake", "NO_BROWSER=true"}
}

// fakeProvider is the model in the configuration of opencode and Kilo.
var fakeProvider = map[string]any{
	"provider": map[string]any{"fake": map[string]any{"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": map[string]any{"baseURL": "{env:FAKE_URL}", "apiKey": "any"},
		"models": map[string]any{"fake": map[string]any{"name": "fake"}}}},
	"permission": "allow",
}

func localList(command []string) map[string]any {
	return map[string]any{"type": "local", "command": command, "enabled": true}
}

// programs are in the order of the table.
var programs = []program{
	{
		name: "claude-code", title: "Claude Code", ci: true, packages: []string{"@anthropic-ai/claude-code@2.1.332"}, scripts: true, bin: "claude",
		client: "claude-code", file: ".mcp.json", inProject: true, servers: "mcpServers", local: plain,
		args: func(s *session, request string) []string {
			return []string{"-p", request, "--mcp-config", filepath.Join(s.project, ".mcp.json"), "--strict-mcp-config", "--allowedTools", "Bash,mcp__kairos,mcp__calendar", "--output-format", "json"}
		},
		env: func(model string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=any", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "DISABLE_ERROR_REPORTING=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"}
		},
		menu: func(prompt, words string) []string { return []string{"/mcp__kairos__" + prompt + " " + words} },
	},
	{
		name: "codex", title: "Codex", ci: true, packages: []string{"@openai/codex@0.169.0"}, bin: "codex",
		client: "codex", file: ".codex/config.toml", servers: "mcp_servers", local: plain,
		waits: "required = true\nstartup_timeout_sec = 120\n",
		args: func(s *session, request string) []string {
			return []string{"exec", "--skip-git-repo-check", "-c", "model=fake", "-c", "model_provider=fake", "-c", "approval_policy=never", "-c", "sandbox_mode=danger-full-access",
				"-c", "model_providers.fake={name='fake',base_url='" + s.model.url() + "/v1',wire_api='responses',requires_openai_auth=false,request_max_retries=0,stream_max_retries=0}", request}
		},
		env: func(string) []string { return nil },
	},
	{
		name: "gemini", title: "Gemini CLI", ci: true, packages: []string{"@google/gemini-cli@0.61.0"}, bin: "gemini",
		client: "gemini", file: ".gemini/settings.json", servers: "mcpServers", local: plain,
		own: map[string]any{"security": map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}}},
		args: func(_ *session, request string) []string {
			return []string{"-p", request, "--approval-mode", "yolo", "--skip-trust", "-m", "gemini-2.5-pro"}
		},
		env: func(model string) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + model, "GEMINI_API_KEY=any", "GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_TELEMETRY_ENABLED=false", "NO_BROWSER=true"}
		},
		menu: slash,
	},
	{
		name: "opencode", title: "opencode", packages: []string{"opencode-ai@1.18.33"}, scripts: true, bin: "opencode",
		client: "opencode", file: ".config/opencode/opencode.json", servers: "mcp", local: localList, own: fakeProvider,
		args: func(_ *session, request string) []string { return []string{"run", "-m", "fake/fake", request} },
		env: func(model string) []string {
			return []string{"FAKE_URL=" + model + "/v1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"}
		},
		menu: byOption,
	},
	{
		name: "kilo", title: "Kilo", packages: []string{"@kilocode/cli-linux-x64@7.7.9"}, bin: "../@kilocode/cli-linux-x64/bin/kilo",
		client: "kilo", file: ".config/kilo/kilo.json", servers: "mcp", local: localList, own: fakeProvider,
		args: func(_ *session, request string) []string {
			return []string{"run", "-m", "fake/fake", "--auto", request}
		},
		env: func(model string) []string {
			return []string{"FAKE_URL=" + model + "/v1", "KILO_DISABLE_AUTOUPDATE=1", "KILO_DISABLE_MODELS_FETCH=1", "KILO_DISABLE_LSP_DOWNLOAD=1"}
		},
		menu: byOption,
	},
	{
		name: "qwen", title: "Qwen Code", packages: []string{"@qwen-code/qwen-code@0.24.4"}, bin: "qwen",
		client: "qwen", file: ".qwen/settings.json", servers: "mcpServers", local: plain,
		args: func(_ *session, request string) []string {
			return []string{"-p", request, "--approval-mode", "yolo", "--auth-type", "openai", "-m", "fake"}
		},
		env: openAI, menu: slash,
	},
	{
		name: "copilot", title: "Copilot CLI", packages: []string{"@github/copilot@1.0.102"}, scripts: true, bin: "copilot",
		client: "copilot", file: ".copilot/mcp-config.json", servers: "mcpServers",
		local: func(command []string) map[string]any {
			return map[string]any{"type": "local", "command": command[0], "args": command[1:], "tools": []any{"*"}}
		},
		args: func(_ *session, request string) []string {
			return []string{"-p", request, "--allow-all-tools", "--no-color"}
		},
		env: func(model string) []string {
			return []string{"COPILOT_PROVIDER_BASE_URL=" + model + "/v1", "COPILOT_PROVIDER_TYPE=openai", "COPILOT_PROVIDER_API_KEY=any", "COPILOT_MODEL=fake", "COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false"}
		},
	},
	{
		name: "cline", title: "Cline", packages: []string{"cline@3.0.65"}, scripts: true, bin: "cline",
		client: "cline", file: ".cline/data/settings/cline_mcp_settings.json", servers: "mcpServers",
		local: func(command []string) map[string]any {
			return map[string]any{"command": command[0], "args": command[1:], "timeout": 60}
		},
		setUp: func(_ *session, model string) [][]string {
			return [][]string{{"auth", "-p", "openai", "-k", "x", "-m", "fake", "-b", model + "/v1"}}
		},
		args: func(_ *session, request string) []string {
			return []string{"-P", "openai-compatible", "-m", "fake", request}
		},
		env: func(string) []string { return []string{"CLINE_TELEMETRY_DISABLED=1", "DO_NOT_TRACK=1"} },
	},
}
