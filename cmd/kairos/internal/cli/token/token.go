// Package token has the commands with which the operator makes and revokes the access tokens
// of agents and scripts.
package token

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/tokens"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// localOnly: whoever may make tokens is the person at the server's machine.
var localOnly = session.StaysLocal("tokens are made and revoked at the server's own terminal")

// Command is `kairos token`.
func Command(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "Create and revoke access tokens of agents and scripts",
		Example: "  kairos token create --owner user:acme:ada --name ci --space production\n  kairos token list\n  kairos token revoke 1a2b3c4d",
	}
	cmd.AddCommand(create(at), list(at), revoke(at))
	return cmd
}

// created is what `kairos token create` prints as JSON.
type created struct {
	Token  tokens.Token `json:"token"`
	Secret string       `json:"secret"`
}

func create(at *session.Session) *cobra.Command {
	out := new(output.Format)
	var in tokens.Wanted
	var expires string
	var may []string
	cmd := &cobra.Command{
		Use: "create", Short: "Create an access token and show it once", Args: cobra.NoArgs, Annotations: localOnly,
		Long: `Creates a token with which an agent or a script calls a server whose configuration has auth.enabled. Its calls are those of its
owner, a person named as user:REALM:NAME: the realm is the word for who knows the person, such as the name of your organisation. It
works in the spaces that you name and in no others. Without --space that is the owner's own one. There it reads, runs and writes, unless
--may says less.

The token is shown once. The database has its SHA-256 only.`,
		Example: "  kairos token create --owner user:acme:ada --name laptop\n" +
			"  kairos token create --owner user:acme:ada --name ci --space production --space group:acme:sre --expires 30d -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, verb := range may {
				in.May = append(in.May, access.Verb(verb))
			}
			lasts, err := lifetime(expires)
			if err != nil {
				return err
			}
			return at.Creating().With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				if lasts > 0 {
					in.Expires = time.Now().Add(lasts)
				}
				made, secret, err := app.CreateToken(ctx, a, in)
				return output.Reply(cmd, out, func(p *output.Printer, c created) {
					printCreated(p, c)
					if !a.Config.Auth.Enabled {
						fmt.Fprintln(cmd.ErrOrStderr(), "note: this configuration lets everybody in without a token: set auth.enabled to true and restart the server")
					}
				})(created{made, secret.Reveal()}, err)
			})
		},
	}
	cmd.Flags().StringVar(&in.Owner, "owner", "", "the person whose calls it makes, as user:REALM:NAME")
	cmd.Flags().StringVar(&in.Name, "name", "", "what it is for")
	cmd.Flags().StringArrayVar(&in.Spaces, "space", nil, "a space in which it works; repeat it for more. Writes go to the first one")
	cmd.Flags().StringSliceVar(&may, "may", nil, "the only things that it may do there: read, run protocols, write them; default: all")
	cmd.Flags().StringVar(&expires, "expires", "90d", "how long it counts, such as 12h or 30d; never: until it is revoked")
	for _, name := range []string{"owner", "name"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is there
		}
	}
	return out.AddTo(cmd)
}

// lifetime reads how long a token counts; 0: for ever.
func lifetime(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	if text == "never" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * day //nolint:gosec // 16 bits
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--expires is %q: must be a time such as 12h or 30d, or never", text)
	}
	return d, nil
}

func printCreated(p *output.Printer, c created) {
	t := c.Token
	p.Printf("created token %s: %s\n", output.ShortID(t.ID), plain.Line(t.Name))
	p.Field("owner", plain.Line(t.Owner))
	p.Field("works in", plain.Line(strings.Join(t.Spaces, ", ")))
	p.Field("may", mayDo(t))
	p.Field("expires", until(t))
	p.Printf("\n%s\n\n", c.Secret)
	p.Printf("Keep it now: it is not shown again.\n")
	p.Printf("  agents and scripts send it as the header   Authorization: Bearer TOKEN\n")
	p.Printf("  commands read it from the environment      KAIROS_BEARER_TOKEN=TOKEN kairos spaces list --url URL\n")
	p.Printf("  to end it within a second                  kairos token revoke %s\n", output.ShortID(t.ID))
}

// mayDo is what a token may do in its spaces.
func mayDo(t tokens.Token) string {
	words := []string{string(access.Read)}
	for _, v := range []access.Verb{access.Run, access.Write} {
		if t.May == nil || slices.Contains(t.May, v) {
			words = append(words, string(v))
		}
	}
	return strings.Join(words, ", ")
}

func until(t tokens.Token) string {
	if t.Expires.IsZero() {
		return "never"
	}
	return output.Moment(t.Expires)
}

func list(at *session.Session) *cobra.Command {
	out := new(output.Format)
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "List access tokens", Args: cobra.NoArgs, Annotations: localOnly,
		Long:    "Lists the tokens with their owners and when they were used last. Those that were revoked or have expired are left out without --all.",
		Example: "  kairos token list\n  kairos token list --all -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				found, err := a.Tokens.List(ctx)
				shown := []tokens.Token{}
				for _, t := range found {
					if all || t.Ended(time.Now()) == "" {
						shown = append(shown, t)
					}
				}
				return output.Reply(cmd, out, func(p *output.Printer, shown []tokens.Token) {
					printTokens(p, shown, len(found)-len(shown))
				})(shown, err)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that do not count any more")
	return out.AddTo(cmd)
}

func printTokens(p *output.Printer, shown []tokens.Token, hidden int) {
	rows := [][]string{{"TOKEN", "NAME", "OWNER", "SPACES", "MAY", "LAST USED", "EXPIRES"}}
	for _, t := range shown {
		used, ends := "never", until(t)
		if !t.LastUsed.IsZero() {
			used = output.Moment(t.LastUsed)
		}
		switch t.Ended(time.Now()) {
		case "revoked":
			ends = "revoked " + output.Moment(t.Revoked)
		case "expired":
			ends = "expired " + ends
		}
		rows = append(rows, []string{p.ID(t.ID), t.Name, t.Owner, strings.Join(t.Spaces, ", "), mayDo(t), used, ends})
	}
	p.Rows(rows)
	if hidden > 0 {
		p.Printf("%s revoked or expired: --all lists them too\n", output.Count(hidden, "more token"))
	}
}

func revoke(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "revoke TOKEN...", Short: "Revoke access tokens", Args: cobra.MinimumNArgs(1), Annotations: localOnly,
		Long: "Revokes tokens for ever, named by their id or the end of it. Within a second no server takes them, and their open calls, streams and\n" +
			"sessions end.",
		Example: "  kairos token revoke 1a2b3c4d",
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				all, err := a.Tokens.List(ctx)
				if err != nil {
					return err
				}
				revoked := make([]tokens.Token, len(args))
				for i, arg := range args { // before anything is revoked
					if revoked[i], err = find(all, arg); err != nil {
						return err
					}
				}
				for i, t := range revoked {
					if revoked[i], err = a.Tokens.Revoke(ctx, a.Caller(), t.ID); err != nil {
						return err
					}
				}
				return output.Reply(cmd, out, func(p *output.Printer, revoked []tokens.Token) {
					for _, t := range revoked {
						p.Printf("revoked token %s of %s: %s\n", output.ShortID(t.ID), plain.Line(t.Owner), plain.Line(t.Name))
					}
				})(revoked, nil)
			})
		},
	}
	return out.AddTo(cmd)
}

// find is the token that an argument names by the end of its id. The secret of a token is not
// repeated.
func find(all []tokens.Token, arg string) (tokens.Token, error) {
	if strings.HasPrefix(arg, tokens.Prefix) {
		return tokens.Token{}, fmt.Errorf("a token is revoked by its id, and not by its secret: `kairos token list` shows the ids; the shell may have kept the secret")
	}
	return output.Ending(all, func(t tokens.Token) string { return t.ID }, arg, "token", "kairos token list --all")
}
