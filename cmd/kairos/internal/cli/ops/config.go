package ops

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
)

func configCommand(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show and check the configuration", Example: "  kairos config check\n  kairos config show"}
	cmd.AddCommand(&cobra.Command{
		Use: "check", Short: "Check the configuration, the driver settings and the decision tree", Args: cobra.NoArgs,
		Long: "Reads the configuration, the settings of the drivers and the decision tree, reports every problem at once, and then\n" +
			"checks that the database and the index answer.",
		Example: "  kairos config check --config kairos.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := at.CheckFiles(); err != nil {
				return err
			}
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				if err := errors.Join(a.Store.Check(), a.Index.Usable(ctx)); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "ok\n  database %s\n", a.Config.Database)
				if a.Index != nil {
					fmt.Fprintf(cmd.OutOrStdout(), "  index    %s\n", a.Index.Feeder.Location())
				}
				fmt.Fprintf(cmd.OutOrStdout(), "  drivers  %s\n", a.Config.Drivers.Dir)
				if e := a.Config.Embedding; e.On() {
					fmt.Fprintf(cmd.OutOrStdout(), "  embedding %s %s at %s\n", e.Provider, filepath.Base(e.Model), e.At())
				}
				return nil
			})
		},
	})
	cmd.AddCommand(configShow(at))
	return cmd
}

// configShow is `kairos config show`.
func configShow(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "show", Short: "Show every setting with its value and where that comes from", Args: cobra.NoArgs,
		Long: "Shows the value that is used for each key of the configuration, and whether it is from the file, the environment, a\n" +
			"flag or the default. Settings of drivers are named without their values, which may be secret.",
		Example: "  kairos config show\n  kairos config show --config kairos.yaml -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			at.LogLevel = "" // commands log less than the server does
			settings, err := at.Settings()
			if err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), settings, func(p *output.Printer) {
				rows := [][]string{{"KEY", "VALUE", "FROM"}}
				for _, s := range settings {
					rows = append(rows, []string{s.Key, fmt.Sprint(s.Value), s.From})
				}
				p.Table(rows)
			})
		},
	}
	out.AddTo(cmd)
	return cmd
}
