package play

import (
	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
)

// Commands are the commands that execute protocols.
func Commands(at *session.Session) []*cobra.Command {
	return []*cobra.Command{runCommand(at), beginCommand(at), nextCommand(at), attestCommand(at), callCommand(at)}
}
