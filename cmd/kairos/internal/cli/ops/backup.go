package ops

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
)

// backedUp is what `kairos backup` prints.
type backedUp struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	// AlsoKeep are the files that a restored server needs besides the copy.
	AlsoKeep []string `json:"also_keep"`
}

// backupCommand is `kairos backup`.
func backupCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Copy the SQLite database while servers use it", Args: cobra.ExactArgs(1),
		Long: "Writes a copy of the database, as it is at one moment, to a new file, and checks the copy as `kairos doctor --deep` does before\n" +
			"the file gets its name. It overwrites nothing. Servers may run. For a database on a PostgreSQL server it names the command\n" +
			"to use. Keys and configuration are not in the copy: the command lists the files to keep with it.",
		Example: "  kairos backup /backup/kairos-monday.db",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := at.Load()
			if err != nil {
				return err
			}
			size, err := output.While(cmd.ErrOrStderr(), "copying and checking", func() (int64, error) {
				return app.Backup(cmd.Context(), c.Database, args[0])
			})
			if err != nil {
				return err
			}
			made := backedUp{File: args[0], Bytes: size, AlsoKeep: besides(c, at.File)}
			return out.Print(cmd.OutOrStdout(), made, func(p *output.Printer) {
				p.Printf("%s: %.1f MB, checked\n", made.File, float64(made.Bytes)/1e6)
				for _, f := range made.AlsoKeep {
					p.Printf("also keep %s\n", f)
				}
			})
		},
	}
	out.AddTo(cmd)
	return cmd
}

// besides lists those files of an installation that exist and that nothing can make
// again.
func besides(c config.Config, file string) []string {
	kept := []string{}
	for _, path := range []string{file, c.Signing.KeyFile, c.MCP.StateKeyFile, c.Tree, c.ToolsFile, config.LockPath(c.Drivers.Dir)} {
		if _, err := os.Stat(path); err == nil {
			kept = append(kept, path)
		}
	}
	return kept
}
