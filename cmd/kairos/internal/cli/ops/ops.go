package ops

import (
	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
)

// Commands are the commands that check an installation.
func Commands(at *session.Session) []*cobra.Command {
	return []*cobra.Command{initCommand(), configCommand(at), versionCommand(at), schemaCommand(at), embeddingCommand(at), doctorCommand(at), indexCommand(at), migrateCommand(at), logsCommand(at), statusCommand(at)}
}
