package ops

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
)

// migrateCommand is `kairos migrate`.
func migrateCommand(at *session.Session) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "migrate --to ADDRESS", Short: "Copy the SQLite database with protocols and runs to PostgreSQL", Args: cobra.NoArgs,
		Long: "Copies protocols with their history, ratings and vectors, runs with everything that happened in them, grants and declines from the\n" +
			"configured SQLite database into an empty PostgreSQL database. Stop all servers before. The SQLite file stays as it is.\n\n" +
			"Others can see the command line: leave the password out of the address and set PGPASSWORD or PGPASSFILE.",
		Example: "  kairos migrate --to postgres://kairos@db.example/kairos",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := at.Load()
			if err != nil {
				return err
			}
			p := output.NewProgress(cmd.ErrOrStderr(), 0, "moving")
			defer p.End()
			shown := 0
			moved, err := app.Migrate(cmd.Context(), c.Database, config.Database(to), func(m app.Moved) {
				all := m.Protocols + m.Versions + m.Runs
				p.Add(all - shown)
				shown = all
			})
			p.End()
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "moved %d protocols with %d older versions, and %d runs\n"+
				"now set database: to that address, and copy %s and %s to every server\n",
				moved.Protocols, moved.Versions, moved.Runs, c.MCP.StateKeyFile, c.Signing.KeyFile)
			return nil
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "address of an empty PostgreSQL database: postgres://USER@HOST/NAME")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err) // the flag is there
	}
	return cmd
}
