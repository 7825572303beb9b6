package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/plugins/command/sandbox"
	"github.com/kairos-mcp/kairos/plugins/command/workspace"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/settings"
)

// challengeType is the type of the challenges whose command is run.
const challengeType = "shell"

func definition() driver.Driver {
	c := &command{Of: settings.New(sound), running: newJobs()}
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "command", Version: "0.1.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence},
			Effect: driver.EffectChanges, ConfigSchema: c.Schema(),
			Features: []string{driver.FeaturePreview, driver.FeatureLauncher, driver.FeaturePartial, driver.FeatureRecover, driver.FeatureCancel},
		},
		Capability: c,
	}
}

type config struct {
	Workspace    string        `json:"workspace" doc:"folder, as an absolute path, on a copy of which commands run: a git work tree, or a folder without one; left out: no command runs"`
	Include      []string      `json:"include" doc:"files and folders of the workspace that git ignores and the copy has nevertheless, such as node_modules"`
	Repositories []string      `json:"repositories" doc:"folders outside of the workspace that git may read: the repository of a linked work tree, or one whose objects are shared"`
	Network      string        `json:"network" default:"none" enum:"none,host" doc:"network of commands: none, or the machine's"`
	Writes       bool          `json:"writes" doc:"changes are written back to the workspace when a command succeeds"`
	Read         []string      `json:"read" doc:"folders besides the system's that commands may read, with the sockets in them; their own files are hidden by mask"`
	Mask         []string      `json:"mask" doc:"files and folders that commands do not see; the server adds its own"`
	Env          []string      `json:"env" doc:"variables of the driver's environment that commands get; env_from gives them to the driver"`
	Protect      protect       `json:"protect" doc:"files that must be as in a commit, so that an agent cannot change what judges its work"`
	Repeatable   bool          `json:"repeatable" doc:"a command whose end nobody saw, because its server ended, may run again; otherwise a person decides"`
	Wrapper      []string      `json:"wrapper" doc:"a program and its arguments in which commands run instead of bubblewrap; {workspace} is the folder with the copy"`
	UID          int           `json:"uid" min:"0" max:"2147483647" doc:"account of commands where the server runs as root; 0: 65534, which is nobody"`
	Timeout      time.Duration `json:"timeout" default:"10m" min:"1s" max:"24h" doc:"how long a command may run; a challenge can ask for less"`
	MemoryMB     int           `json:"memory_mb" default:"2048" min:"16" max:"1048576" doc:"memory of each process of a command"`
	Processes    int           `json:"processes" default:"512" min:"1" max:"65536" doc:"processes of a command at a time"`
	FileMB       int           `json:"file_mb" default:"1024" min:"1" max:"1048576" doc:"size of one file that a command writes"`
	DiskMB       int           `json:"disk_mb" default:"4096" min:"1" max:"1048576" doc:"what a command adds to the copy, measured ten times a second; deleted files that it keeps open count where KAIROS can see them"`
	OutputKB     int           `json:"output_kb" default:"32" min:"1" max:"1024" doc:"how much of stdout and of stderr is kept, each: the beginning and the end"`
}

type protect struct {
	Ref   string   `json:"ref" doc:"the commit: its whole id, which nobody can move, or a ref such as origin/main"`
	Paths []string `json:"paths" doc:"globs of the files, such as tests/**"`
}

// sound refuses what depends on where the driver runs, and half a protection. It warns of
// limits that this machine cannot enforce.
func sound(c config) []driver.Diagnostic {
	var found []driver.Diagnostic
	absolute := func(key string, paths ...string) {
		for i, path := range paths {
			if !filepath.IsAbs(path) {
				found = append(found, driver.Problem(fields.Pointer(key, fmt.Sprint(i)), "must be an absolute path"))
			}
		}
	}
	absolute("read", c.Read...)
	absolute("mask", c.Mask...)
	absolute("repositories", c.Repositories...)
	if c.Workspace != "" && !filepath.IsAbs(c.Workspace) {
		found = append(found, driver.Problem("/workspace", "must be an absolute path"))
	}
	if (c.Protect.Ref == "") != (len(c.Protect.Paths) == 0) {
		found = append(found, driver.Problem("/protect", "needs ref and paths, or neither"))
	}
	if c.Workspace != "" && len(c.Wrapper) == 0 {
		if missing := sandbox.Unenforced(); len(missing) > 0 {
			found = append(found, driver.Warning("", "commands are not limited in: "+strings.Join(missing, "; ")))
		}
	}
	return found
}

// sandbox is the one that commands run in. A command may not run longer than its
// challenge says.
func (c config) sandbox(limit time.Duration) sandbox.Sandbox {
	s := sandbox.Sandbox{
		Wrapper: c.Wrapper, Network: c.Network == "host", Read: c.Read, Mask: c.Mask, UID: c.UID,
		Limits: sandbox.Limits{
			Time: c.Timeout, MemoryMiB: c.MemoryMB, Processes: c.Processes, FileMiB: c.FileMB, DiskMiB: c.DiskMB, OutputKiB: c.OutputKB,
		},
	}
	if limit > 0 && limit < s.Time {
		s.Time = limit
	}
	for _, name := range c.Env {
		if value, ok := os.LookupEnv(name); ok {
			s.Env = append(s.Env, name+"="+value)
		}
	}
	return s
}

// take takes the snapshot on which a command runs, if the protected files allow one.
func (c config) take(ctx context.Context) (workspace.Snapshot, error) {
	s, err := workspace.Take(ctx, c.Workspace, workspace.Options{Include: c.Include, Repositories: c.Repositories})
	if err == nil && c.Protect.Ref != "" {
		err = s.Protect(ctx, c.Protect.Ref, c.Protect.Paths)
	}
	return s, err
}

// command is safe for concurrent use.
type command struct {
	*settings.Of[config]
	running *jobs
	shown   shown
}

// asked is what a shell challenge shows.
type asked struct {
	Command string  `json:"cmd"`
	Seconds float64 `json:"timeout_seconds"`
}

// read reads what the challenge asks for; why not, otherwise.
func read(in driver.Input) (a asked, why string) {
	if in.Kind != driver.KindEvidence || in.Type != challengeType {
		return a, "it runs commands for challenges of type " + challengeType + " only"
	}
	if err := json.Unmarshal(in.Display, &a); err != nil || strings.TrimSpace(a.Command) == "" {
		return a, "the challenge names no command"
	}
	return a, ""
}

// plan is what is to be run, exactly.
type plan struct {
	Command   string   `json:"command"`
	Seconds   float64  `json:"timeout_seconds,omitempty"`
	Workspace string   `json:"workspace"`
	Snapshot  string   `json:"snapshot"`
	Network   string   `json:"network"`
	Env       []string `json:"env,omitempty"`
	Writes    bool     `json:"writes,omitempty"`
	Wrapper   []string `json:"wrapper,omitempty"`
	Protect   protect  `json:"protect,omitzero"`
}

func (c config) plan(a asked, snapshot string) plan {
	return plan{
		Command: a.Command, Seconds: a.Seconds, Workspace: c.Workspace, Snapshot: snapshot, Network: c.Network,
		Env: slices.Clone(c.Env), Writes: c.Writes, Wrapper: c.Wrapper, Protect: c.Protect,
	}
}

// unset says what an operator has to set before any command runs.
const unset = "no workspace is named: set drivers.settings.command.config.workspace to the folder on a copy of which commands run, or start `kairos run` with --workspace"

// Preview implements driver.Previewer. It reads the workspace and starts nothing.
func (c *command) Preview(ctx context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	a, why := read(req.Input)
	cfg := c.Now()
	switch {
	case why != "":
		return driver.CannotPreview(why), nil
	case cfg.Workspace == "":
		return driver.CannotPreview(unset), nil
	}
	s, err := c.shown.take(ctx, cfg)
	if err != nil {
		return driver.CannotPreview(err.Error()), nil
	}
	p := cfg.plan(a, s.Digest)
	data, err := json.Marshal(p)
	if err != nil {
		return driver.PreviewResult{}, err
	}
	return driver.Planned(driver.Plan{Text: p.text(s), Data: data, Effect: driver.EffectChanges}), nil
}

// text says for the person who approves what is run, and what it can change. The
// command comes last, so that nothing in it looks like one of the other lines.
func (p plan) text(s workspace.Snapshot) string {
	var b strings.Builder
	b.WriteString("Run a command on a copy of " + p.Workspace)
	files := map[bool]string{true: "file", false: "files"}[s.Files == 1]
	fmt.Fprintf(&b, "\n  copy: %d %s, %s", s.Files, files, short(p.Snapshot))
	if s.History != "" {
		fmt.Fprintf(&b, "\n  history: %s", s.History)
	}
	fmt.Fprintf(&b, "\n  network: %s", map[bool]string{true: "none", false: "the machine's"}[p.Network == "none"])
	if len(p.Env) > 0 {
		fmt.Fprintf(&b, "\n  environment: %s", strings.Join(p.Env, ", "))
	}
	fmt.Fprintf(&b, "\n  changes: %s", map[bool]string{true: "written back if it succeeds", false: "not kept"}[p.Writes])
	if p.Protect.Ref != "" {
		fmt.Fprintf(&b, "\n  as in %s: %s", p.Protect.Ref, strings.Join(p.Protect.Paths, ", "))
	}
	if len(p.Wrapper) > 0 {
		fmt.Fprintf(&b, "\n  in: %s", strings.Join(p.Wrapper, " "))
	}
	return b.String() + "\n  command: " + oneLine(p.Command)
}

// oneLine shows a command of several lines, or with unusual characters, quoted.
func oneLine(text string) string {
	quoted := fmt.Sprintf("%q", text)
	if strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), `\\`, `\`) == text {
		return text
	}
	return quoted
}

// short is enough of a digest to compare by eye.
func short(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return "sha256 " + hex[:min(12, len(hex))]
}

// Interpret implements driver.Capability: nobody is asked.
func (*command) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("it runs commands itself and asks nobody"), nil
}
