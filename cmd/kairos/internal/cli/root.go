package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/drivers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/library"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ops"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/play"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/runs"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/serve"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/tree"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
)

// Root is the program with all its commands.
func Root(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "kairos",
		Short:         "An MCP server that makes agents follow procedures step by step and prove each step",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	// What drivers start for one answer is no news; a server logs more.
	at := session.Session{Options: app.Options{Source: config.Source{LogLevel: "warn"}, Version: version}}
	cmd.PersistentFlags().StringVar(&at.File, "config", os.Getenv("KAIROS_CONFIG"), "configuration file (kairos.yaml); also KAIROS_CONFIG")
	cmd.PersistentFlags().StringVar(&at.Database, "db", "", "database file; also KAIROS_DB")
	cmd.PersistentFlags().StringVarP(&at.URL, "url", "u", "", "ask this server instead of the local database; also "+session.ServerEnv+", with a token from "+session.TokenEnv)
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return at.CheckServer(cmd) }
	cmd.AddCommand(serve.Command(&at), runs.Command(&at), drivers.Command(&at), tree.Command(&at))
	cmd.AddCommand(play.Commands(&at)...)
	cmd.AddCommand(library.Commands(&at)...)
	cmd.AddCommand(ops.Commands(&at)...)
	explainUsage(cmd)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w\n  usage: %s; --help lists the flags", err, cmd.UseLine())
	})
	return cmd
}
