package library

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
)

// listed is a protocol of `kairos list`.
type listed struct {
	Title string `json:"title"`
	Steps int    `json:"steps"`
	Space string `json:"space"`
	URI   string `json:"uri"` // of the first step
}

// listCommand is `kairos list`.
func listCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "list", Short: "List protocols", Args: cobra.NoArgs, Annotations: session.AsksServers,
		Long:    "Lists the protocols that you can run, those of your own space first.",
		Example: "  kairos list\n  kairos list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				reply, err := allSpaces(ctx, t, true)
				if err != nil {
					return err
				}
				all := []listed{}
				rows := [][]string{{"PROTOCOL", "STEPS", "SPACE", "URI"}}
				for _, s := range reply.Spaces {
					for _, c := range s.Chains {
						all = append(all, listed{c.Title, c.StepCount, s.Name, c.URI})
						rows = append(rows, []string{c.Title, strconv.Itoa(c.StepCount), s.Name, c.URI})
					}
				}
				return out.Print(cmd.OutOrStdout(), all, func(p *output.Printer) { p.Rows(rows) })
			})
		},
	}
	out.AddTo(cmd)
	return cmd
}
