// Package accept has the commands with which a person allows drivers to act for
// steps, and takes that back.
package accept

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ask"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/reference"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/offers"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// localOnly: whoever may allow drivers to act is the person at the server's machine.
var localOnly = session.StaysLocal("what drivers may do is allowed at the server's own terminal")

// Commands are `kairos allow` and `kairos grants`.
func Commands(at *session.Session) []*cobra.Command {
	return []*cobra.Command{allow(at), command(at)}
}

func allow(at *session.Session) *cobra.Command {
	var in offers.AcceptInput
	var yes bool
	cmd := &cobra.Command{
		Use: "allow PROTOCOL|RUN", Short: "Allow drivers to do steps of a protocol themselves", Args: cobra.ExactArgs(1),
		Annotations: localOnly, ValidArgsFunction: at.CompleteURI,
		Long: `Lists the steps of a protocol that a driver could do itself, and allows it once you agree. The text of a protocol is
never a permission. What you allow is for this version of the protocol: an edited one asks again. A step that changes something
asks for your approval of exactly that, each time.

A run is named by its id or the end of it, a protocol by its title, its URI, the end of its URI or a file.`,
		Example: "  kairos allow 'Release a version'\n  kairos allow RUN --once --step 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				if err := findTarget(ctx, a, args[0], &in); err != nil {
					return err
				}
				acts, err := a.Engine.Offers.Actable(ctx, a.RunCaller(), in.On)
				if err != nil {
					return err
				}
				for _, step := range in.Steps {
					if step < 1 || step > acts.Total {
						return fmt.Errorf("there is no step %d: %q has %s; nothing was allowed", step, acts.Title, output.Count(acts.Total, "step"))
					}
				}
				p := &output.Printer{W: cmd.OutOrStdout()}
				printActs(p, acts, in)
				if acts.Could() > 0 && !yes {
					agreed, err := ask.Agreed(cmd, p, "Allow this?")
					if err != nil {
						return err
					}
					if !agreed {
						return errors.New("nothing was allowed")
					}
				}
				in.By = session.Operator()
				all, err := a.Engine.Offers.Accept(ctx, a.RunCaller(), in)
				if err != nil {
					return err
				}
				p.Printf("allowed: %s\n", output.Count(len(all), "step"))
				p.Printf("  kairos grants list                    shows what is allowed\n")
				for _, g := range all {
					p.Printf("  kairos grants revoke %-16s takes step %d back\n", output.ShortID(g.ID), g.Step)
				}
				return p.Err
			})
		},
	}
	cmd.Flags().IntSliceVar(&in.Steps, "step", nil, "only these steps, by number")
	cmd.Flags().BoolVar(&in.Once, "once", false, "only for the run that is named")
	cmd.Flags().BoolVar(&in.Looks, "looks-only", false, "drivers may look, and change nothing")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "agree without a question")
	return cmd
}

// findTarget finds the run or the protocol that an argument names.
func findTarget(ctx context.Context, a *app.App, arg string, in *offers.AcceptInput) error {
	t := session.Local(a)
	if strings.Trim(strings.ToLower(arg), "0123456789abcdef-") == "" { // not a title
		id, err := session.FindRun(ctx, t, arg)
		if err != nil {
			return err
		}
		if _, err := a.Engine.Archive.Timeline(ctx, a.RunCaller(), id); err == nil {
			in.Run = id
			return nil
		}
	}
	ref, err := reference.Find(ctx, t, arg)
	if err != nil {
		return err
	}
	in.URI = ref.URI
	return nil
}

func printActs(p *output.Printer, acts offers.Offer, in offers.AcceptInput) {
	p.Printf("KAIROS could do %d of %s of %q itself:\n", acts.Could(), output.Count(acts.Total, "step"), acts.Title)
	for _, s := range acts.Steps {
		printAct(p, s)
	}
	if acts.Could() == 0 {
		return
	}
	if acts.Earlier != nil {
		p.Printf("%s\n", output.Lines(strings.ReplaceAll(acts.Earlier.String(), "\n", "\n     | ")))
	}
	scope := "every run of this version"
	if in.Once {
		scope = "this run only"
	}
	effect := "Steps that change something ask each time."
	if in.Looks {
		effect = "They may look, and change nothing."
	}
	p.Printf("For %s. %s\n", scope, effect)
}

// printAct prints what the driver would do, or as long as that is not known, what
// the step asks for.
func printAct(p *output.Printer, s offers.Step) {
	more := ""
	switch {
	case s.Acceptance != "":
		more = ", allowed already"
	case s.Effect == driver.EffectReads:
		more = ", only looks"
	}
	p.Broken("     ", "  %d. %s: %s, by driver %s%s", s.Step, s.Label, s.Type, s.Driver, more)
	switch {
	case s.Cannot != "":
		p.Broken("     ", "     not now: %s", s.Cannot)
	case s.Plan != "":
		p.Broken("     | ", "     | %s", output.Lines(strings.ReplaceAll(plain.Text(s.Plan), "\n", "\n     | ")))
	default:
		p.Broken("     ", "     %s", output.Short(output.CompactJSON(s.Challenge)))
	}
}

func command(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "grants", Short: "List and revoke what drivers may do themselves",
		Example: "  kairos grants list\n  kairos grants revoke 1a2b3c4d",
	}
	cmd.AddCommand(list(at), revoke(at))
	return cmd
}

func list(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "list", Short: "List what drivers may do themselves", Args: cobra.NoArgs, Annotations: localOnly,
		Example: "  kairos grants list\n  kairos grants list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				all, err := a.Engine.Acceptances.Accepted(ctx, a.RunCaller())
				return output.Reply(cmd, out, printGrants)(append([]acceptances.Acceptance{}, all...), err)
			})
		},
	}
	return out.AddTo(cmd)
}

func printGrants(p *output.Printer, all []acceptances.Acceptance) {
	rows := [][]string{{"GRANT", "PROTOCOL", "STEP", "DRIVER", "EFFECT", "FOR", "BY", "SINCE"}}
	for _, g := range all {
		scope := "this version"
		if g.Run != "" {
			scope = "run " + output.ShortID(string(g.Run))
		}
		rows = append(rows, []string{output.ShortID(g.ID), g.Title, fmt.Sprintf("%d %s", g.Step, g.Label), g.Driver, string(g.Effect), scope, g.By, output.Moment(g.At)})
	}
	p.Rows(rows)
}

func revoke(at *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "revoke GRANT...", Short: "Revoke what drivers may do themselves", Args: cobra.MinimumNArgs(1), Annotations: localOnly,
		Long:    "Takes grants back, named by their id or the end of it. What is under way is not stopped.",
		Example: "  kairos grants revoke 1a2b3c4d",
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				all, err := a.Engine.Acceptances.Accepted(ctx, a.RunCaller())
				if err != nil {
					return err
				}
				for _, arg := range args {
					g, err := granted(all, arg)
					if err != nil {
						return err
					}
					if err := a.Engine.Acceptances.Revoke(ctx, a.RunCaller(), g.ID); err != nil {
						return err
					}
					p := &output.Printer{W: cmd.OutOrStdout()}
					if p.Printf("revoked %s: step %d, %s, of %q\n", g.ID, g.Step, plain.Line(g.Label), g.Title); p.Err != nil {
						return p.Err
					}
				}
				return nil
			})
		},
	}
}

// granted is the grant that an argument names by the end of its id.
func granted(all []acceptances.Acceptance, arg string) (acceptances.Acceptance, error) {
	var found []acceptances.Acceptance
	var ids []string
	for _, g := range all {
		if arg != "" && strings.HasSuffix(g.ID, strings.ToLower(arg)) {
			found, ids = append(found, g), append(ids, g.ID)
		}
	}
	switch len(found) {
	case 0:
		return acceptances.Acceptance{}, fmt.Errorf("there is no grant %.80q: `kairos grants list` shows them", arg)
	case 1:
		return found[0], nil
	}
	return acceptances.Acceptance{}, fmt.Errorf("%.80q names %d grants; name one by its id:\n  %s", arg, len(ids), strings.Join(ids, "\n  "))
}
