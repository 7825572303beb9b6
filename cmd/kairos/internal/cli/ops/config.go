package ops

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
)

func configCommand(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check the configuration"}
	cmd.AddCommand(&cobra.Command{
		Use: "check", Short: "Check the configuration, the driver settings and the decision tree", Args: cobra.NoArgs,
		Long: "Reads the configuration, the settings of the drivers and the decision tree, reports every problem at once, and then\n" +
			"checks that the stores answer.",
		Example: "  kairos config check --config kairos.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := at.CheckFiles(); err != nil {
				return err
			}
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				if err := errors.Join(a.Store.Check(), a.CheckQdrant(ctx)); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "ok\n  database %s\n", a.Config.Database)
				if a.Qdrant != nil {
					fmt.Fprintf(cmd.OutOrStdout(), "  protocols %s\n", a.Qdrant.Location())
				}
				fmt.Fprintf(cmd.OutOrStdout(), "  drivers  %s\n", a.Config.Drivers.Dir)
				if e := a.Config.Embedding; e.On() {
					fmt.Fprintf(cmd.OutOrStdout(), "  embedding %s %s at %s\n", e.Provider, filepath.Base(e.Model), e.At())
				}
				return nil
			})
		},
	})
	return cmd
}
