// Package accept has the commands with which the operator accepts what drivers do for the
// steps of a protocol, and takes that back.
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
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/offers"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// localOnly: whoever may accept what drivers do is the person at the server's machine.
var localOnly = session.StaysLocal("what drivers do is accepted at the server's own terminal")

// flags are those of `kairos accept`.
type flags struct {
	run       string // as typed
	steps     []int
	looksOnly bool
	yes       bool
}

// Command is `kairos accept`.
func Command(at *session.Session) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "accept PROTOCOL", Short: "Accept what drivers do for the steps of a protocol", Args: cobra.MaximumNArgs(1),
		Annotations: localOnly, ValidArgsFunction: at.CompleteURI,
		Long: `Shows the steps of a protocol that a driver could do itself, and what it would do, and lets it once you accept that. The text
of a protocol is never a permission. You accept this version of the protocol: an edited one, another driver or a greater effect asks
again. A step that changes something asks for your approval of exactly that, each time.

A protocol is named by its title, its URI, the end of its URI or a file. With --run you accept the version that the run has, for
that run only.`,
		Example: "  kairos accept 'Release a version'\n  kairos accept 'Release a version' --step 2 --looks-only\n  kairos accept --run RUN",
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				on, file, err := f.target(ctx, a, args)
				if err == nil {
					err = f.accept(ctx, cmd, a, on, file)
				}
				if len(args) == 1 && fault.CodeOf(err) == fault.NotFound {
					return orRun(ctx, a, args[0], err)
				}
				return err
			})
		},
	}
	cmd.Flags().IntSliceVar(&f.steps, "step", nil, "only these steps, by number")
	cmd.Flags().StringVar(&f.run, "run", "", "only for this run, named by its id or the end of it")
	cmd.Flags().BoolVar(&f.looksOnly, "looks-only", false, "drivers may look, and change nothing")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "accept without a question")
	cmd.AddCommand(list(at), revoke(at))
	return cmd
}

// target finds the protocol and the run that are meant, and the protocol as a file has it, if one is named.
func (f flags) target(ctx context.Context, a *app.App, args []string) (on offers.On, file *protocol.Chain, err error) {
	t := session.Local(a)
	if f.run != "" {
		if on.Run, err = session.FindRun(ctx, t, f.run); err != nil {
			return on, nil, err
		}
	}
	switch {
	case len(args) == 1:
		ref, err := reference.Find(ctx, t, args[0])
		if err != nil {
			return on, nil, err
		}
		on.URI = ref.URI
		file, err = reference.InFile(ctx, args[0])
		return on, file, err
	case f.run == "":
		return on, nil, errors.New("name a protocol by its title, its URI or a file, or a run with --run; `kairos protocols list` lists the protocols")
	}
	return on, nil, nil
}

// sameText refuses a file that says something else than the version that would be accepted.
func sameText(file *protocol.Chain, offer offers.Offer) error {
	if file == nil {
		return nil
	}
	switch digest, err := file.ContentDigest(); {
	case err != nil:
		return err
	case digest == offer.Protocol:
		return nil
	}
	return fmt.Errorf("the file differs from the version of %q that would be accepted; nothing was accepted. Store the file with `kairos mint FILE --force`, or name what is stored by its title", offer.Title)
}

// orRun says that an argument which names no protocol names a run.
func orRun(ctx context.Context, a *app.App, arg string, err error) error {
	if strings.Trim(strings.ToLower(arg), "0123456789abcdef-") != "" {
		return err
	}
	id, unknown := session.FindRun(ctx, session.Local(a), arg)
	if unknown != nil {
		return err
	}
	if _, unknown := a.Engine.Archive.Timeline(ctx, a.RunCaller(), id); unknown != nil {
		return err
	}
	return fmt.Errorf("%s is a run: `kairos accept --run %s` accepts what drivers do in it, `kairos accept PROTOCOL` in every run of the stored version", arg, arg)
}

func (f flags) accept(ctx context.Context, cmd *cobra.Command, a *app.App, on offers.On, file *protocol.Chain) error {
	offer, err := a.Engine.Offers.Actable(ctx, a.RunCaller(), on)
	if err == nil {
		err = sameText(file, offer)
	}
	if err != nil {
		return err
	}
	p, in := &output.Printer{W: cmd.OutOrStdout()}, offers.AcceptInput{Offer: offer, Steps: f.steps, LooksOnly: f.looksOnly, By: session.Operator()}
	f.print(p, offer)
	if err := in.Check(); err != nil {
		return errors.Join(p.Err, err)
	}
	if !f.yes {
		switch agreed, err := ask.Agreed(cmd, p, "Accept this?"); {
		case err != nil:
			return err
		case !agreed:
			return errors.New("nothing was accepted")
		}
	}
	all, err := a.Engine.Offers.Accept(ctx, a.RunCaller(), in)
	if err != nil {
		return err
	}
	p.Printf("accepted: %s\n", output.Count(len(all), "step"))
	p.Printf("  kairos accept list                    shows what is accepted\n")
	for _, one := range all {
		p.Printf("  kairos accept revoke %-16s takes step %d back\n", output.ShortID(one.ID), one.Step)
	}
	for _, s := range offer.Steps {
		if f.looksOnly && s.Acceptance != "" && s.Effect == driver.EffectChanges {
			p.Printf("Step %d may still change something, as it was accepted before: kairos accept revoke %s\n", s.Step, output.ShortID(s.Acceptance))
		}
	}
	return p.Err
}

func (f flags) print(p *output.Printer, offer offers.Offer) {
	p.Printf("KAIROS could do %d of %s of %q itself:\n", offer.Could(), output.Count(offer.Total, "step"), offer.Title)
	for _, s := range offer.Steps {
		printStep(p, s)
	}
	if offer.Could() == 0 {
		return
	}
	if offer.Earlier != nil {
		p.Printf("%s\n", output.Lines(strings.ReplaceAll(offer.Earlier.String(), "\n", "\n     | ")))
	}
	scope := "every run of this version"
	if offer.Run != "" {
		scope = "run " + output.ShortID(string(offer.Run)) + " only"
	}
	if len(f.steps) > 0 {
		scope += ", of these steps only: " + strings.Trim(fmt.Sprint(f.steps), "[]")
	}
	effect := "Steps that change something ask each time."
	if f.looksOnly {
		effect = "Drivers may look, and change nothing: steps that change something are left out."
	}
	p.Printf("For %s. %s\n", scope, effect)
}

// printStep prints what the driver would do, or as long as that is not known, what
// the step asks for.
func printStep(p *output.Printer, s offers.Step) {
	more := ""
	switch {
	case s.Acceptance != "":
		more = ", accepted already"
	case s.Effect == driver.EffectReads:
		more = ", only looks"
	case s.Cannot == "":
		more = ", changes something"
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

func list(at *session.Session) *cobra.Command {
	out := new(output.Format)
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "List what drivers may do themselves", Args: cobra.NoArgs, Annotations: localOnly,
		Long:    "Lists what is accepted, and where it counts. What was accepted for a run that has ended counts nowhere, and is left out without --all.",
		Example: "  kairos accept list\n  kairos accept list --all -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				entries, err := a.Engine.Offers.Entries(ctx, a.RunCaller())
				shown := []offers.Entry{}
				for _, e := range entries {
					if all || e.Counts != offers.CountsInNone {
						shown = append(shown, e)
					}
				}
				return output.Reply(cmd, out, func(p *output.Printer, shown []offers.Entry) {
					printEntries(p, shown, len(entries)-len(shown))
				})(shown, err)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also what was accepted for runs that have ended")
	return out.AddTo(cmd)
}

func printEntries(p *output.Printer, shown []offers.Entry, hidden int) {
	rows := [][]string{{"ACCEPTANCE", "PROTOCOL", "STEP", "DRIVER", "EFFECT", "COUNTS IN", "BY", "SINCE"}}
	for _, e := range shown {
		rows = append(rows, []string{
			output.ShortID(e.ID), e.Title, fmt.Sprintf("%d %s", e.Step, e.Label), e.Driver, string(e.Effect), countsIn(e), e.By, output.Moment(e.At),
		})
	}
	p.Rows(rows)
	if hidden > 0 {
		p.Printf("%s for runs that have ended: --all lists them too\n", output.Count(hidden, "more acceptance"))
	}
}

func countsIn(e offers.Entry) string {
	switch e.Counts {
	case offers.CountsInNone:
		return fmt.Sprintf("run %s, which has ended", output.ShortID(string(e.Run)))
	case offers.CountsInItsRun:
		return "run " + output.ShortID(string(e.Run))
	case offers.CountsInEarlier:
		return "runs of an earlier version"
	}
	return "every run"
}

func revoke(at *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ACCEPTANCE...", Short: "Revoke what drivers may do themselves", Args: cobra.MinimumNArgs(1), Annotations: localOnly,
		Long:    "Takes acceptances back, named by their id or the end of it. What is under way is not stopped.",
		Example: "  kairos accept revoke 1a2b3c4d",
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				all, err := a.Engine.Acceptances.Accepted(ctx, a.RunCaller())
				if err != nil {
					return err
				}
				named := make([]acceptances.Acceptance, len(args))
				for i, arg := range args { // before anything is revoked
					if named[i], err = find(all, arg); err != nil {
						return err
					}
				}
				p := &output.Printer{W: cmd.OutOrStdout()}
				for _, one := range named {
					if err := a.Engine.Acceptances.Revoke(ctx, a.RunCaller(), one.ID); err != nil {
						return err
					}
					p.Printf("revoked %s: step %d, %s, of %q%s\n", one.ID, one.Step, plain.Line(one.Label), one.Title, still(all, one))
				}
				return p.Err
			})
		},
	}
}

// still says what else makes the driver act for the step.
func still(all []acceptances.Acceptance, revoked acceptances.Acceptance) string {
	for _, a := range all {
		same := a.Space == revoked.Space && a.Protocol == revoked.Protocol && a.Step == revoked.Step && a.Driver == revoked.Driver
		if same && a.Run != revoked.Run && (a.Run == "" || revoked.Run == "") {
			return fmt.Sprintf("; it is still accepted %s: %s", scopeOf(a.Run), output.ShortID(a.ID))
		}
	}
	return ""
}

func scopeOf(id run.ID) string {
	if id == "" {
		return "for every run"
	}
	return "for run " + output.ShortID(string(id))
}

// find is the acceptance that an argument names by the end of its id.
func find(all []acceptances.Acceptance, arg string) (acceptances.Acceptance, error) {
	var found []acceptances.Acceptance
	var ids []string
	for _, a := range all {
		if arg != "" && strings.HasSuffix(a.ID, strings.ToLower(arg)) {
			found, ids = append(found, a), append(ids, a.ID)
		}
	}
	switch len(found) {
	case 0:
		return acceptances.Acceptance{}, fmt.Errorf("there is no acceptance %.80q: `kairos accept list --all` shows them", arg)
	case 1:
		return found[0], nil
	}
	return acceptances.Acceptance{}, fmt.Errorf("%.80q names %d acceptances; name one by its id:\n  %s", arg, len(ids), strings.Join(ids, "\n  "))
}
