package drivers

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/servers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/drivers/manual"
)

func driverDocsCommand(at *session.Session, out *output.Format) *cobra.Command {
	return &cobra.Command{
		Use: "docs NAME", Short: "Print the manual page of a driver",
		Long: "Prints a Markdown page made from the descriptor of the driver in drivers.lock: what a challenge of its type may say, what\n" +
			"later steps see of it, and how it is configured. It starts no driver.",
		Example: "  kairos driver docs shell\n  kairos driver docs word_count > word_count.md",
		Args:    oneDriver(at), ValidArgsFunction: session.First(completeDrivers(at)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !out.ForPeople() {
				return fmt.Errorf("the page is Markdown: `kairos driver info %s -o %s` has what it is made from", args[0], *out)
			}
			c := servers.Look(*at, cmd.ErrOrStderr())
			lock, err := c.Config.ReadLock()
			if err != nil {
				return err
			}
			e, ok := EntryOf(lock, args[0])
			if !ok {
				return noSuchDriver(args[0], lock, c.Config)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), manual.Page(e.Descriptor, 1))
			return err
		},
	}
}
