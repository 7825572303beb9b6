// Package adopt has the command that changes whose protocols and open runs are.
package adopt

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/adoption"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Identity is `kairos identity`.
func Identity(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "identity", Short: "Move protocols and open runs to a person or a space",
		Example: "  kairos identity adopt --from local --to user:acme:ada",
	}
	cmd.AddCommand(adopt(at))
	return cmd
}

func adopt(at *session.Session) *cobra.Command {
	out := new(output.Format)
	var from, to string
	var yes bool
	cmd := &cobra.Command{
		Use: "adopt", Short: "Move what a principal has to a person or a space", Args: cobra.NoArgs,
		Annotations: session.StaysLocal("whose things are is changed at the server's own terminal"),
		Long: `Moves the protocols of a principal's own space, its open runs, and its acceptances and declines. --from is local, as whom everybody
calls a server without identity, or a person who has another name now. --to is a person, who gets everything, or a space: then the
protocols move there, and open runs stay with their principal.

Without --yes it prints what would move and changes nothing. Runs that have ended stay where they are. Servers may run meanwhile. If
the command is interrupted, repeat it.`,
		Example: "  kairos identity adopt --from local --to user:acme:ada\n  kairos identity adopt --from local --to space:production --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				return output.Reply(cmd, out, printReport)(app.Adopt(ctx, a, from, to, yes))
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "whose it is: local, or user:REALM:NAME")
	cmd.Flags().StringVar(&to, "to", "", "where it goes: user:REALM:NAME, or space:NAME")
	cmd.Flags().BoolVar(&yes, "yes", false, "move it, instead of printing what would move")
	for _, name := range []string{"from", "to"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is there
		}
	}
	return out.AddTo(cmd)
}

func printReport(p *output.Printer, r adoption.Report) {
	verb := "would move"
	if r.Moved {
		verb = "moved"
	}
	p.Printf("%s from %s to %s: %s, %s, %s, %s\n", verb, plain.Line(r.From.Principal), plain.Line(r.To.Space), output.Count(len(r.Protocols), "protocol"),
		output.Count(len(r.Runs), "open run"), output.Count(r.Acceptances, "acceptance"), output.Count(r.Declines, "decline"))
	for _, title := range r.Protocols {
		p.Printf("  protocol  %s\n", plain.Line(title))
	}
	for _, id := range r.Runs {
		p.Printf("  run       %s\n", id)
	}
	if !r.Moved {
		p.Printf("Nothing was changed. Repeat the command with --yes to move it.\n")
	}
}
