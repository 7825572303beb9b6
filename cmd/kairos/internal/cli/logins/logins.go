// Package logins has the commands with which the operator lets people log in with a browser,
// and ends their logins.
package logins

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/servers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/logins"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// localOnly: whoever lets people in is the person at the server's machine.
var localOnly = session.StaysLocal("people are let in at the server's own terminal")

// linkTime bounds the call of the server.
const linkTime = 30 * time.Second

// Link is `kairos login-link`.
func Link(at *session.Session) *cobra.Command {
	choice := servers.Choice{Own: true}
	out := new(output.Format)
	var in operations.LoginLinkRequest
	cmd := &cobra.Command{
		Use: "login-link", Short: "Print a link that logs a person in with a browser, once", Args: cobra.NoArgs, Annotations: localOnly,
		Long: `Asks the running server for a link with which a person logs in to its pages, such as those of approvals. It works for ten minutes and
once: whoever opens it and presses the button is that person for twelve hours. Send it to nobody else.

The person is user:local:NAME, whom this server alone knows, or user:REALM:NAME, such as the owner of a token. Answers on pages
are recorded with that name.`,
		Example: "  kairos login-link --as ada\n  kairos login-link --as user:acme:ada --name Ada --group release",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return choice.Running(cmd, at, "start the server with `kairos serve --http`", func(found []socket.Found) error {
				ctx, cancel := context.WithTimeout(cmd.Context(), linkTime)
				defer cancel()
				made, err := linkOf(ctx, found, in)
				return output.Reply(cmd, out, printLink)(made, err)
			})
		},
	}
	cmd.Flags().StringVar(&in.As, "as", "", "the person: a name, or user:REALM:NAME")
	cmd.Flags().StringVar(&in.Name, "name", "", "what people call the person; the name in --as unless given")
	cmd.Flags().StringArrayVar(&in.Groups, "group", nil, "a group of the person; repeat it for more. Without a realm it is of the person's")
	if err := cmd.MarkFlagRequired("as"); err != nil {
		panic(err) // the flag is there
	}
	choice.AddTo(cmd)
	return out.AddTo(cmd)
}

// linkOf asks the first server that serves pages. Servers of one database know each other's
// logins.
func linkOf(ctx context.Context, found []socket.Found, in operations.LoginLinkRequest) (operations.LoginLinkReply, error) {
	chosen := found[0]
	for _, f := range found {
		if f.HTTP != "" {
			chosen = f
			break
		}
	}
	return operations.LoginLink.Call(ctx, chosen, in)
}

func printLink(p *output.Printer, made operations.LoginLinkReply) {
	p.Printf("%s\n\n", made.URL)
	p.Printf("It logs in once, until %s.\n", output.Moment(made.Expires))
	p.Field("logs in", fmt.Sprintf("%s (%s)", plain.Line(made.Name), plain.Line(made.Principal)))
	if len(made.Groups) > 0 {
		p.Field("groups", plain.Line(strings.Join(made.Groups, ", ")))
	}
	p.Field("to end it", "kairos logins revoke "+output.ShortID(made.ID))
}

// Command is `kairos logins`.
func Command(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "logins", Short: "List and revoke logins of people",
		Example: "  kairos logins list\n  kairos logins revoke 1a2b3c4d",
	}
	cmd.AddCommand(list(at), revoke(at))
	return cmd
}

func list(at *session.Session) *cobra.Command {
	out := new(output.Format)
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "List logins of people", Args: cobra.NoArgs, Annotations: localOnly,
		Long: "Lists who is logged in with a browser, and links that were not used yet. Those that have ended are left out without --all;\n" +
			"they are kept for 30 days.",
		Example: "  kairos logins list\n  kairos logins list --all -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				found, err := a.Logins.List(ctx)
				shown := []logins.Login{}
				for _, l := range found {
					if all || l.Ended(time.Now()) == "" {
						shown = append(shown, l)
					}
				}
				return output.Reply(cmd, out, func(p *output.Printer, shown []logins.Login) {
					printLogins(p, shown, len(found)-len(shown))
				})(shown, err)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that have ended")
	return out.AddTo(cmd)
}

func printLogins(p *output.Printer, shown []logins.Login, hidden int) {
	rows := [][]string{{"LOGIN", "NAME", "PRINCIPAL", "LOGGED IN", "LAST USED", "ENDS"}}
	for _, l := range shown {
		begun, used, ends := "link not used", "never", output.Moment(l.Expires)
		if !l.Begun.IsZero() {
			begun = output.Moment(l.Begun)
		}
		if !l.LastUsed.IsZero() {
			used = output.Moment(l.LastUsed)
		}
		switch l.Ended(time.Now()) {
		case "revoked":
			ends = "ended " + output.Moment(l.Revoked)
		case "expired":
			ends = "expired " + ends
		}
		rows = append(rows, []string{p.ID(l.ID), l.Name, l.Principal, begun, used, ends})
	}
	p.Rows(rows)
	if hidden > 0 {
		p.Printf("%s ended: --all lists them too\n", output.Count(hidden, "more login"))
	}
}

func revoke(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "revoke LOGIN...", Short: "End logins of people", Args: cobra.MinimumNArgs(1), Annotations: localOnly,
		Long:    "Ends logins, named by their id or the end of it, at once: the person has to log in again. A link that was not used does not log in any more.",
		Example: "  kairos logins revoke 1a2b3c4d",
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				all, err := a.Logins.List(ctx)
				if err != nil {
					return err
				}
				revoked := make([]logins.Login, len(args))
				for i, arg := range args { // before anything is revoked
					if revoked[i], err = output.Ending(all, func(l logins.Login) string { return l.ID }, arg, "login", "kairos logins list --all"); err != nil {
						return err
					}
				}
				for i, l := range revoked {
					if revoked[i], err = a.Logins.Revoke(ctx, a.Caller(), l.ID); err != nil {
						return err
					}
				}
				return output.Reply(cmd, out, func(p *output.Printer, revoked []logins.Login) {
					for _, l := range revoked {
						p.Printf("ended login %s of %s (%s)\n", output.ShortID(l.ID), plain.Line(l.Name), plain.Line(l.Principal))
					}
				})(revoked, nil)
			})
		},
	}
	return out.AddTo(cmd)
}
