package drivers

import (
	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
)

// Command is `kairos driver`.
func Command(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "driver", Short: "Create, install, inspect and reload drivers",
		Example: "  kairos driver list\n  kairos driver install ./kairos-driver-word_count"}
	out := new(output.Format)
	out.AddTo(cmd)
	cmd.AddCommand(
		driverListCommand(at, out), driverInfoCommand(at, out), driverVerifyCommand(at, out),
		driverLockCommand(at, out), driverInstallCommand(at, out), driverRemoveCommand(at, out), driverNewCommand(at, out),
		driverReloadCommand(at, out), driverRollbackCommand(at, out), driverLogsCommand(at, out), driverTestCommand(at),
	)
	return cmd
}
