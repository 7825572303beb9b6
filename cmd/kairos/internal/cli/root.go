package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/connect"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/drivers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/grants"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/library"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ops"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/play"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/runs"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/serve"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/tools"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/tree"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
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
	addGroup(cmd, "run", "Run protocols:", append(append(play.Commands(&at), runs.Command(&at)), grants.Commands(&at)...)...)
	addGroup(cmd, "keep", "Keep protocols:", library.Commands(&at)...)
	addGroup(cmd, "drivers", "Drivers:", drivers.Command(&at), tools.Command(&at), tree.Command(&at))
	addGroup(cmd, "operate", "Operate:", append(ops.Commands(&at), serve.Command(&at), connect.Command(&at))...)
	cmd.SetCompletionCommandGroupID("operate")
	cmd.SetHelpCommandGroupID("operate")
	cmd.InitDefaultCompletionCmd()
	explainCompletion(cmd)
	explainUsage(cmd)
	cmd.SetHelpFunc(printHelp)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w\n  usage: %s; --help lists the flags", err, cmd.UseLine())
	})
	return cmd
}

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

// addGroup adds commands below a heading of the help.
func addGroup(cmd *cobra.Command, id, title string, commands ...*cobra.Command) {
	cmd.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
		cmd.AddCommand(c)
	}
}
