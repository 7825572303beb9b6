package library

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/reference"
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
		Long: "Lists the protocols that you can run, those of your own space first. A terminal shows the end of each URI, which commands\n" +
			"take as well.",
		Example: "  kairos list\n  kairos list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				reply, err := reference.Spaces(ctx, t, true)
				if err != nil {
					return err
				}
				all := []listed{}
				for _, s := range reply.Spaces {
					for _, c := range s.Chains {
						all = append(all, listed{c.Title, c.StepCount, s.Name, c.URI})
					}
				}
				return out.Print(cmd.OutOrStdout(), all, func(p *output.Printer) { printProtocols(p, all) })
			})
		},
	}
	out.AddTo(cmd)
	return cmd
}

func printProtocols(p *output.Printer, all []listed) {
	rows := [][]string{{"PROTOCOL", "STEPS", "SPACE", "URI"}}
	for _, l := range all {
		rows = append(rows, []string{l.Title, strconv.Itoa(l.Steps), l.Space, p.ID(l.URI)})
	}
	p.Rows(rows)
}
