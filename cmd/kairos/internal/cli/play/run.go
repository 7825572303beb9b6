// Package play has the commands that execute protocols: run, begin, next and attest.
package play

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/documents"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/timeline"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/terminal"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/internal/openai"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Flags are the flags of `kairos run`.
type Flags struct {
	script, servers, input, era string
	logLevel, workspace         string
	without, autoSampling       []string
	llmURL, llmModel            string
	temporary, withServers      bool
	// Session is the id of the run to resume; Files: its protocol is in the space
	// of files.
	Session string
	Files   bool
}

func runCommand(at *session.Session) *cobra.Command {
	var f Flags
	cmd := &cobra.Command{
		Use:   "run FILE|URI|WORDS...",
		Short: "Run a protocol in this terminal",
		Long: "Starts a server of its own and runs a protocol with the person at this terminal. It fills in the server's forms, shows\n" +
			"the addresses that the server wants opened and every request to a model before it is sent, and does the agent's part.\n" +
			"A FILE is stored in the space \"local\" of the configured database, where it replaces the file's earlier version and\n" +
			"nothing else, and agents do not find it; with --temporary nothing is kept. A run that stops can be resumed later.\n" +
			"A protocol NAME.md may have servers with its tools beside it, in NAME.servers.json. They are shown, and started if you agree.\n" +
			"The key of a model's endpoint is read from " + terminal.KeyEnv + ".",
		Example: "  kairos run hello.md --workspace .\n  kairos run 'Release a version' --script answers.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return Play(cmd, at, f, args) },
	}
	f.AddTo(cmd)
	cmd.Flags().StringVar(&f.input, "input", "", "input of the run, a JSON object")
	cmd.Flags().BoolVar(&at.Dev, "dev", false, session.DevHelp)
	cmd.Flags().BoolVar(&f.withServers, withServers, false, "start the servers named in NAME.servers.json beside NAME.md without asking; =false does not start them")
	cmd.Flags().BoolVar(&f.temporary, "temporary", false, "run a FILE in a database of its own, and remove that afterwards")
	return cmd
}

// AddTo adds the flags that say how to play, whatever is played.
func (f *Flags) AddTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.script, "script", "", "answer everything from this YAML file")
	flags.StringVar(&f.servers, "servers", "", "JSON file with mcpServers whose tools the agent may call; paths in it begin at its folder")
	flags.StringVar(&f.workspace, "workspace", "", "let KAIROS run the commands of steps on a copy of this folder, and write back what they change; you approve each")
	flags.StringVar(&f.logLevel, "log-level", "", "what the server logs here: debug, info, warn or error; empty: what is configured, else error")
	flags.StringVar(&f.era, "era", "auto", "MCP version to speak: 2025, 2026 or auto")
	flags.StringSliceVar(&f.without, "without", nil, "capabilities not to declare: elicitation, or one of its modes form and url, sampling, roots")
	flags.StringSliceVar(&f.autoSampling, "allow-auto-sampling", nil, "servers whose automatic requests go to the model unseen, such as KAIROS")
	flags.StringVar(&f.llmURL, "llm-url", "", "OpenAI-compatible endpoint that samples; empty: no model is asked, and you do the work")
	flags.StringVar(&f.llmModel, "llm-model", "", "model at that endpoint")
}

// Play executes a protocol with the person at this terminal and prints what
// happened.
func Play(cmd *cobra.Command, at *session.Session, f Flags, args []string) (err error) {
	at = quiet(at)
	config, ownDB, err := f.config(cmd, at, args)
	if err != nil {
		return err
	}
	if ownDB != "" {
		defer func() { err = errors.Join(err, os.RemoveAll(filepath.Dir(ownDB))) }()
	}
	began := time.Now()
	result, playErr := terminal.Play(cmd.Context(), config)
	if result.RunID == "" && (result.Chain == "" || cmd.Context().Err() == nil) {
		return playErr
	}
	told := *at
	if ownDB != "" {
		told.Database = ownDB
	}
	// The database says what became of the run, also when it stopped half-way.
	sumErr := told.With(context.WithoutCancel(cmd.Context()), func(ctx context.Context, a *app.App) error {
		id := run.ID(result.RunID)
		if id == "" {
			found, err := begunSince(ctx, a, began)
			if err != nil || found == "" {
				return err
			}
			id = found
		}
		line, err := a.Engine.Archive.Timeline(ctx, a.RunCaller(), id)
		if err != nil {
			return err
		}
		return timeline.Summary(cmd.OutOrStdout(), line, timeline.Played{
			Took: time.Since(began), Kept: ownDB == "", Resume: f.resume(config, args),
		})
	})
	return errors.Join(playErr, sumErr)
}

// quiet lets the program log errors only, unless more is configured: a person reads what is
// asked and proved, not what the server notes of it.
func quiet(at *session.Session) *session.Session {
	q := *at
	q.LogLevel = "error"
	return &q
}

// begunSince is the run that was interrupted at a question which came before the
// reply that names the run; "": none was begun, or others began runs meanwhile.
func begunSince(ctx context.Context, a *app.App, since time.Time) (run.ID, error) {
	begun, err := session.LiveSince(ctx, session.Local(a), since)
	if err != nil || len(begun) != 1 {
		return "", err
	}
	return begun[0], nil
}

// resume are the arguments with which `kairos runs resume` continues the run: with the
// workspace and the servers that this one had, which are not stored with the run.
func (f Flags) resume(played terminal.Config, args []string) string {
	with := "--play"
	if f.workspace != "" {
		with += " --workspace " + quoted(f.workspace)
	}
	switch file := strings.Join(args, " "); {
	case f.servers != "":
		with += " --servers " + quoted(f.servers)
	case len(played.Servers) > 0:
		with += " --servers " + quoted(sidecarOf(file))
	}
	return with
}

// hasForms reports whether questions can be forms. A screen reader reads lines
// better: programs that know forms take ACCESSIBLE for the wish to have none.
func hasForms(in io.Reader, out io.Writer) bool {
	return output.IsTerminal(in) && output.IsTerminal(out) && os.Getenv("TERM") != "dumb" && os.Getenv("ACCESSIBLE") == ""
}

// config makes a terminal host's configuration; ownDB is the database made for
// this run alone, if any.
func (f Flags) config(cmd *cobra.Command, at *session.Session, args []string) (c terminal.Config, ownDB string, err error) {
	if levels := []string{"", "debug", "info", "warn", "error"}; !slices.Contains(levels, f.logLevel) {
		return c, "", fmt.Errorf("--log-level is %q: must be one of %s", f.logLevel, strings.Join(levels[1:], ", "))
	}
	loaded, err := at.Load()
	if err != nil {
		return c, "", err
	}
	self, err := os.Executable()
	if err != nil {
		return c, "", fmt.Errorf("find this program to start its server: %w", err)
	}
	c = terminal.Config{
		Who: func(p string) string { return run.Who(driver.Provenance(p), "") },
		Era: terminal.Era(f.era), Without: f.without, AllowAutoSampling: f.autoSampling, Input: json.RawMessage(f.input),
		Model: terminal.Model{URL: f.llmURL, Name: f.llmModel, Key: openai.Secret(os.Getenv(terminal.KeyEnv))},
		Open:  browser(), In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), ServerLog: os.Stderr,
		Signs: output.IsTerminal(cmd.OutOrStdout()), Colours: output.HasColours(cmd.OutOrStdout()),
		Forms:     hasForms(cmd.InOrStdin(), cmd.OutOrStdout()),
		ServerEnv: []string{"LOG_LEVEL=" + cmp.Or(f.logLevel, loaded.Log.Level)},
	}
	if f.llmURL == "" && f.script == "" {
		// A person is not a model: without one the work is theirs, as an agent's.
		c.Without = append(slices.Clone(c.Without), terminal.Sampling)
	}
	if err := f.files(&c); err != nil {
		return c, "", err
	}
	database, inFiles := at.Database, false
	what := strings.Join(args, " ")
	switch _, statErr := os.Stat(what); {
	case strings.HasPrefix(what, "kairos://"):
		c.URI, c.Session, inFiles = what, f.Session, f.Files
	case statErr == nil:
		if inFiles, err = true, f.document(cmd, at, what, &c); err != nil {
			return c, "", err
		}
		if f.temporary {
			dir, err := os.MkdirTemp("", "kairos-run-")
			if err != nil {
				return c, "", fmt.Errorf("make a database for this run: %w", err)
			}
			ownDB = filepath.Join(dir, "kairos.db")
			database = ownDB
		}
	case documents.IsMarkdown(what) && errors.Is(statErr, fs.ErrNotExist):
		return c, "", fmt.Errorf("no such file: %s", what)
	default:
		c.Query = what
	}
	if inFiles && ownDB == "" && !app.DatabaseExists(loaded.Database) {
		fmt.Fprintf(cmd.ErrOrStderr(), "kairos: makes the database %s\n", loaded.Database)
	}
	work, err := f.workLine()
	c.Server = append(serverLine(self, at, database, inFiles), work...)
	return c, ownDB, err
}

// document reads the protocol of a file and the servers beside it.
func (f Flags) document(cmd *cobra.Command, at *session.Session, file string, c *terminal.Config) error {
	b, err := documents.Document{Name: file}.Read(cmd.Context(), nil)
	if err != nil {
		return fmt.Errorf("read the protocol: %w", err)
	}
	c.Document = string(protocol.TitleFile(b, file).Document)
	offered, err := f.offered(cmd, at, file, b)
	if offered != nil {
		c.Servers = offered
	}
	return err
}

// serverLine starts the server that the run is played against.
func serverLine(self string, at *session.Session, database string, inFiles bool) []string {
	line := []string{self, "serve"}
	if at.File != "" {
		line = append(line, "--config", at.File)
	}
	if database != "" {
		line = append(line, "--db", database)
	}
	if at.Dev {
		line = append(line, "--dev")
	}
	if inFiles {
		line = append(line, "--files")
	}
	return line
}

// workLine gives the server the workspace, if one is named.
func (f Flags) workLine() ([]string, error) {
	if f.workspace == "" {
		return nil, nil
	}
	if info, err := os.Stat(f.workspace); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("--workspace %s is not a folder: name the one on a copy of which commands run", f.workspace)
	}
	return []string{"--workspace", files.Absolute(f.workspace)[0]}, nil
}

// files reads the script and the servers that the flags name.
func (f Flags) files(c *terminal.Config) error {
	if f.script != "" {
		b, err := files.Read(f.script)
		if err != nil {
			return fmt.Errorf("read the script: %w", err)
		}
		if c.Script, err = terminal.ParseScript(b); err != nil {
			return fmt.Errorf("script %s: %w", f.script, err)
		}
	}
	if f.servers != "" {
		b, err := files.Read(f.servers)
		if err != nil {
			return fmt.Errorf("read the servers: %w", err)
		}
		file, err := terminal.ParseHostFile(b, os.LookupEnv)
		if err != nil {
			return fmt.Errorf("servers %s: %w", f.servers, err)
		}
		dir, err := filepath.Abs(filepath.Dir(f.servers))
		if err != nil {
			return fmt.Errorf("servers %s: %w", f.servers, err)
		}
		c.Servers = file.Servers.Below(dir)
		c.AllowAutoSampling = append(c.AllowAutoSampling, file.AllowAutoSampling...)
	}
	return nil
}

// Commands are the commands that execute protocols.
func Commands(at *session.Session) []*cobra.Command {
	return []*cobra.Command{runCommand(at), callCommand(at)}
}

// Steps are the commands of `kairos runs` that advance a run by hand, as the tools of
// agents do.
func Steps(at *session.Session) []*cobra.Command {
	return []*cobra.Command{beginCommand(at), nextCommand(at), attestCommand(at)}
}

// browser opens an address for the person at this terminal; nil: there is no
// screen to open it on, and a browser in the terminal would take it from us.
func browser() func(context.Context, string) error {
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	path, err := exec.LookPath(opener)
	if err != nil {
		return nil
	}
	return func(ctx context.Context, address string) error {
		cmd := exec.CommandContext(ctx, path, address)
		cmd.Env = terminal.Environment()
		return cmd.Run()
	}
}
