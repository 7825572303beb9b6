// Package cli is the command line: the root command, and how commands say that
// they are used wrongly. Each group of commands is a package below it.
package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/accept"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/adopt"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/connect"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/drivers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/library"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/logins"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ops"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/play"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/runs"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/serve"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/token"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/tools"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/tree"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/tty"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// Root is the program with all its commands.
func Root(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "kairos",
		Short:         "An MCP server that makes agents follow procedures step by step and prove each step",
		Example:       "  kairos run release.md\n  kairos connect claude-code\n  kairos serve --http",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	// Commands log at warn level: driver starts would be noise. A server logs more.
	at := session.Session{Options: app.Options{Source: config.Source{LogLevel: "warn"}, Version: version}}
	cmd.PersistentFlags().StringVar(&at.File, "config", os.Getenv("KAIROS_CONFIG"), "configuration file (kairos.yaml); also KAIROS_CONFIG")
	cmd.PersistentFlags().StringVar(&at.Database, "db", "", "database file, or address of a PostgreSQL database; also KAIROS_DB")
	cmd.PersistentFlags().StringVarP(&at.URL, "url", "u", "", "ask this server instead of the local database; also "+session.ServerEnv+", with a token from "+session.TokenEnv)
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return at.CheckServer(cmd) }
	addGroup(cmd, "run", "Run protocols:", append(play.Commands(&at), runs.Command(&at, play.Steps(&at)...), accept.Command(&at))...)
	addGroup(cmd, "keep", "Keep protocols:", library.Commands(&at)...)
	addGroup(cmd, "drivers", "Drivers:", drivers.Command(&at), tools.Command(&at), tree.Command(&at))
	addGroup(cmd, "operate", "Operate:", append(ops.Commands(&at), serve.Command(&at), token.Command(&at), adopt.Identity(&at), logins.Link(&at), logins.Command(&at), connect.Command(&at), drivers.Reload(&at))...)
	keepEarlier(cmd, append(play.Steps(&at), library.Changes(&at)...)...)
	cmd.SetCompletionCommandGroupID("operate")
	cmd.SetHelpCommandGroupID("operate")
	cmd.InitDefaultCompletionCmd()
	explainCompletion(cmd)
	cmd.SetVersionTemplate(ops.Version(version))
	explainUsage(cmd)
	cmd.SetHelpFunc(printHelp)
	cmd.SetUsageTemplate(strings.Replace(cmd.UsageTemplate(), "{{if .Runnable}}", `{{if and .Runnable (not (index .Annotations "`+group+`"))}}`, 1))
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		hint := "--help lists the flags"
		if format := unknownFormat.FindStringSubmatch(err.Error()); format != nil && cmd.Flags().Lookup("output") != nil {
			hint = "the flag for that is -o " + format[1]
		}
		return fmt.Errorf("%w\n  usage: %s; %s", err, cmd.UseLine(), hint)
	})
	return cmd
}

// unknownFormat is the error of a format that was given as a flag of its own.
var unknownFormat = regexp.MustCompile(`^unknown flag: --(json|yaml|md|text)$`)

// explainCompletion gives the commands that cobra makes for shells an example each.
func explainCompletion(cmd *cobra.Command) {
	completion, _, err := cmd.Find([]string{"completion"})
	if err != nil {
		return
	}
	completion.Example = "  kairos completion bash"
	for _, shell := range completion.Commands() {
		shell.Example = "  kairos completion " + shell.Name()
	}
}

// earlier are the commands of the earlier server's command line, with what each prints where
// standard output is not a terminal and -o is not given: its scripts rely on both.
var earlier = map[string]output.Format{
	"search": output.FormatJSON, "mint": output.FormatJSON,
	"begin": output.FormatJSON, "next": output.FormatMarkdown, "attest": output.FormatJSON,
	"update": output.FormatJSON, "delete": output.FormatJSON,
}

// keepEarlier lets the program take the earlier commands. The given ones have another place
// in the help, which does not list them here as well.
func keepEarlier(root *cobra.Command, elsewhere ...*cobra.Command) {
	for _, c := range elsewhere {
		c.Hidden = true
		root.AddCommand(c)
	}
	for _, c := range root.Commands() {
		piped, kept := earlier[c.Name()]
		if !kept || output.IsTerminal(os.Stdout) {
			continue
		}
		if err := c.PersistentFlags().Lookup("output").Value.Set(string(piped)); err != nil {
			panic(err) // it is one of the command's formats
		}
	}
}

// addGroup adds commands below a heading of the help.
func addGroup(cmd *cobra.Command, id, title string, commands ...*cobra.Command) {
	cmd.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
		cmd.AddCommand(c)
	}
}

// helpWidth is how wide a help is: what every terminal has.
const helpWidth = 80

// printHelp prints the help of a command, without --url where that would be refused.
func printHelp(cmd *cobra.Command, _ []string) {
	if url := cmd.Root().PersistentFlags().Lookup("url"); url != nil {
		url.Hidden = !session.MayAsk(cmd)
		defer func() { url.Hidden = false }()
	}
	text := strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)) + "\n\n" + cmd.UsageString()
	fmt.Fprint(cmd.OutOrStdout(), fit(text, helpWidth))
}

// described is a line of a list of flags, up to where the description begins.
var described = regexp.MustCompile(`^ *(?:-\w, )?--.*?\S {2,}`)

// fit breaks lines that are wider than the width: a paragraph anew, and the
// description of a flag below its beginning. Lines that are indented are not part of
// a paragraph.
func fit(text string, width int) string {
	var out, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out = append(out, tty.Wrap(strings.Join(strings.Fields(strings.Join(paragraph, " ")), " "), width, ""))
			paragraph = nil
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		head := described.FindString(line)
		switch {
		case head != "":
			end()
			out = append(out, tty.Wrap(line, width, strings.Repeat(" ", len(head))))
		case line == "" || strings.HasPrefix(line, " ") || strings.HasSuffix(line, ":"):
			end()
			out = append(out, line)
		default:
			paragraph = append(paragraph, line)
		}
	}
	end()
	return strings.Join(out, "\n")
}

// group marks a command that does nothing but hold others.
const group = "kairos.group"

// explainUsage lets a command and those below it say how they are used when they
// are used wrongly. A group of commands refuses one that it does not have,
// instead of printing its help as if nothing were wrong.
func explainUsage(cmd *cobra.Command) {
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Annotations = maps.Clone(cmd.Annotations) // commands share theirs
		if cmd.Annotations == nil {
			cmd.Annotations = map[string]string{}
		}
		cmd.Annotations[group] = "yes"
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		}
	} else if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%w\n  usage: %s", err, cmd.UseLine())
			}
			return nil
		}
	}
	for _, below := range cmd.Commands() {
		explainUsage(below)
	}
}

// unknownCommand is the error of a word that is not a command of the group, with the
// command of another group that has this name, or the one whose name is closest.
func unknownCommand(cmd *cobra.Command, word string) error {
	var names, paths []string
	for _, below := range cmd.Commands() {
		if !below.Hidden {
			names = append(names, below.Name())
		}
	}
	if word == "version" {
		paths = append(paths, "`kairos --version`")
	}
	for _, group := range cmd.Root().Commands() {
		for _, below := range append(group.Commands(), group) {
			if below.Name() == word && !below.Hidden && group.Name() != "completion" {
				paths = append(paths, "`"+below.CommandPath()+"`")
			}
		}
	}
	meant := fmt.Sprintf("; `%s --help` lists them", cmd.CommandPath())
	if closest := fields.Closest(word, names); closest != "" && len(paths) == 0 {
		paths = []string{fmt.Sprintf("`%s %s`", cmd.CommandPath(), closest)}
	}
	if len(paths) > 0 {
		meant = fmt.Sprintf("; did you mean %s?%s", strings.Join(paths, " or "), meant[1:])
	}
	return fmt.Errorf("unknown command %q for %q%s", word, cmd.CommandPath(), meant)
}
