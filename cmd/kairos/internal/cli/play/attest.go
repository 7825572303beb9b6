package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/flags"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/reference"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/signing"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// attester closes a run. A reply with a run id beside an error means that the
// run is closed and that its statement was not written.
type attester func(ctx context.Context, in api.AttestRequest) (api.AttestReply, error)

// withAttester runs do with the way to attest; with a path it writes a
// statement of the run there, which needs the database and its key.
func withAttester(ctx context.Context, s session.Session, path string, do func(context.Context, api.Transport, attester) error) error {
	if path == "" {
		return s.WithTools(ctx, func(ctx context.Context, t api.Transport) error {
			return do(ctx, t, func(ctx context.Context, in api.AttestRequest) (api.AttestReply, error) {
				return api.Attest.Call(ctx, t, in)
			})
		})
	}
	if address := s.Server(); address != "" {
		return fmt.Errorf("--statement needs the database and its signing key, which are with the server %s: leave it out and run `kairos runs export` there", address)
	}
	return s.With(ctx, func(ctx context.Context, a *app.App) error {
		// What can be found out before the run is closed is.
		if _, err := a.Config.SigningKey(); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return fmt.Errorf("write the statement: %w", err)
		}
		return do(ctx, session.Local(a), func(ctx context.Context, in api.AttestRequest) (api.AttestReply, error) {
			reply, err := a.Engine.Attest(ctx, a.RunCaller(), in)
			if err != nil {
				return api.AttestReply{}, err
			}
			if reply.RunID == "" {
				return reply, fmt.Errorf("no run was attested, so there is nothing to state: %s", reply.Message)
			}
			data, err := a.Statement(ctx, a.RunCaller(), run.ID(reply.RunID), false)
			if err == nil {
				err = signing.Write(io.Discard, path, data)
			}
			if err != nil {
				return reply, fmt.Errorf("the run is attested, its statement is missing (`kairos runs export %s` makes it): %w", reply.RunID, err)
			}
			return reply, nil
		})
	})
}

func attestCommand(at *session.Session) *cobra.Command {
	var in api.AttestRequest
	out, strict, to := new(output.Format), output.IsTerminal(os.Stdout), ""
	cmd := &cobra.Command{
		Use: "attest URI|TITLE|FILE success|failure MESSAGE", Short: "Attest how a run ended, and close it", Args: cobra.ExactArgs(3), Annotations: session.AsksServers,
		Example: "  kairos attest 'Release a version' success 'released 1.2'\n  kairos attest kairos://mem/... failure 'the build broke' --run-id RUN",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []cobra.Completion{"success", "failure"}, cobra.ShellCompDirectiveNoFileComp
			}
			return at.CompleteURI(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Outcome, in.Message = args[1], args[2]
			return withAttester(cmd.Context(), *at, to, func(ctx context.Context, t api.Transport, attest attester) error {
				named, err := reference.Find(ctx, t, args[0])
				if err != nil {
					return err
				}
				in.URI = named.URI
				if in.RunID, err = openRun(ctx, t, in.RunID); err != nil {
					return err
				}
				reply, err := attest(ctx, in)
				if err != nil && reply.RunID == "" {
					return missingRun(*at, in, err)
				}
				stated := err // the run is closed all the same
				err = errors.Join(out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) { printAttested(p, reply) }), stated)
				if strict && reply.ErrorCode != "" {
					err = errors.Join(err, fault.New(fault.Code(reply.ErrorCode), "%s", reply.Message))
				}
				return err
			})
		},
	}
	out.AddToTool(cmd, output.FormatJSON)
	cmd.Flags().Float64Var(&in.QualityBonus, "quality-bonus", 0, "added to the rating")
	cmd.Flags().StringVar(&in.ModelID, "model", "", "who rates")
	runFlag(cmd, at, &in.RunID)
	cmd.Flags().StringVar(&to, "statement", "", "write a signed statement of the run into this file, as kairos runs export does")
	flags.Strict(cmd, &strict)
	return cmd
}

// missingRun is what an operator can use of an attestation's error, where the run
// that was named is not in the local database.
func missingRun(s session.Session, in api.AttestRequest, err error) error {
	if in.RunID == "" || fault.CodeOf(err) != fault.NotFound || s.Server() != "" || !strings.Contains(err.Error(), in.RunID) {
		return err
	}
	c, loadErr := s.Load()
	if loadErr != nil {
		return err
	}
	return session.NoSuchRun(in.RunID, c.Database.String())
}

func printAttested(p *output.Printer, reply api.AttestReply) {
	verified := "not verified"
	if reply.Verified {
		verified = "verified"
	}
	p.Printf("%s: %s\n", verified, output.Lines(output.Commands(reply.Message)))
	for _, uri := range reply.MissingSteps {
		p.Printf("- no accepted proof: %s\n", uri)
	}
	for _, id := range reply.Candidates {
		p.Printf("- may be meant: run %s\n", id)
	}
	if reply.RunID != "" {
		p.Printf("\nrun %s\n", reply.RunID)
	}
}
