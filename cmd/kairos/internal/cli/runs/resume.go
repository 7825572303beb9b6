package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/play"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/handover"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
)

// runsResume is `kairos runs resume`.
func runsResume(at *session.Session, out *output.Format) *cobra.Command {
	var file string
	var playRest bool
	var f play.Flags
	cmd := &cobra.Command{
		Use: "resume RUN|--file FILE", Short: "Resume a run", Annotations: session.AsksServers,
		Long: "Shows the open step of a run with a fresh nonce, and the command and the agent's call that continue it. A client that had the run before must\n" +
			"resume it as well before it can submit anything. FILE is a kairos-session-handover.txt: it names the run, and the\n" +
			"database knows the open step. With --play the run continues in this terminal, as with `kairos run`.",
		Example: "  kairos runs resume 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2\n  kairos runs resume --file kairos-session-handover.txt --play",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || (len(args) == 0) == (file == "") {
				return errors.New("name one run, or a handover file with --file; `kairos runs list` shows the runs")
			}
			return nil
		},
		ValidArgsFunction: at.CompleteRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !playRest {
				return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
					return resume(ctx, t, cmd, *out, file, args)
				})
			}
			if at.Server() != "" {
				return errors.New("--play runs the steps on the local database: leave it out to see the open step of a run of a server, " +
					"and continue with `kairos runs next --follow`")
			}
			uri := ""
			err := at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				r, err := findResumption(ctx, session.Local(a), file, args)
				if err != nil {
					return err
				}
				if uri, err = uriOf(ctx, a, r.id); err != nil {
					return session.Missing(ctx, session.Local(a), r.id, err)
				}
				f.Session, f.Files = string(r.id), inFiles(ctx, a, uri)
				return nil
			})
			if err != nil {
				return err
			}
			return play.Play(cmd, at, f, []string{uri})
		},
	}
	f.AddTo(cmd)
	cmd.Flags().StringVar(&file, "file", "", "handover file that names the run")
	cmd.Flags().BoolVar(&playRest, "play", false, "play the rest of the run in this terminal")
	cmd.Flags().BoolVar(&at.Dev, "dev", false, session.DevHelp)
	return cmd
}

// resumption is a run to resume.
type resumption struct {
	id run.ID
	// said is the step that a handover file says is open, or 0 without a file.
	said int
}

// findResumption finds the run that is meant.
func findResumption(ctx context.Context, t api.Transport, file string, args []string) (resumption, error) {
	if file == "" {
		id, err := session.FindRun(ctx, t, strings.Join(args, ""))
		return resumption{id: id}, err
	}
	content, err := files.Read(file)
	if err != nil {
		return resumption{}, fmt.Errorf("read the handover file: %w", err)
	}
	at, err := handover.Parse(content)
	if err != nil {
		return resumption{}, fmt.Errorf("%s cannot be used: %w. `kairos runs list` shows the runs that can be resumed", file, err)
	}
	return resumption{id: at.Session, said: at.StepIndex}, nil
}

// uriOf is the URI of the protocol of a run.
func uriOf(ctx context.Context, a *app.App, id run.ID) (string, error) {
	account, err := a.Engine.Archive.Account(ctx, a.RunCaller(), id)
	if err != nil {
		return "", err
	}
	return protocol.URI(account.Chain.Steps[0].UUID), nil
}

// inFiles reports whether the protocol is in the space of files.
func inFiles(ctx context.Context, a *app.App, uri string) bool {
	caller := a.RunCaller()
	caller.Space, caller.Groups = app.FilesSpace, nil
	_, err := a.Engine.Library.Dump(ctx, caller, api.DumpRequest{URI: uri})
	return err == nil
}

// resume shows the open step of the run.
func resume(ctx context.Context, t api.Transport, cmd *cobra.Command, out output.Format, file string, args []string) error {
	r, err := findResumption(ctx, t, file, args)
	if err != nil {
		return err
	}
	reply, err := operations.ResumeRun.Call(ctx, t, operations.RunRequest{RunID: r.id})
	switch code := fault.CodeOf(err); {
	case file != "" && (code == fault.NotFound || code == fault.NoOpenRun):
		return fmt.Errorf("%s is out of date: %w", file, session.Missing(ctx, t, r.id, err))
	case err != nil:
		return session.Missing(ctx, t, r.id, err)
	}
	if file != "" && reply.StepIndex != min(r.said, reply.StepCount) {
		output.Tell(cmd.ErrOrStderr(), "%s is older than the run: it says step %d, open is step %d\n", file, r.said, reply.StepIndex)
	}
	return out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) { printResumed(p, reply) })
}

// printResumed prints the open step and how to continue.
func printResumed(p *output.Printer, reply api.StepReply) {
	p.Printf("run %s, step %d of %d: %s\n\n", reply.RunID, reply.StepIndex, reply.StepCount, reply.CurrentStep.URI)
	p.Document(reply.CurrentStep.Content)
	p.Printf("\n")
	p.Field("challenge", output.Commands(reply.Challenge.Description))
	p.Field("message", output.Commands(reply.Message))
	p.Field("next", continuing(reply))
}

// continuing is the command with which a person continues the run. The reply words the call
// of an agent, which copies values from one reply to the next.
func continuing(reply api.StepReply) string {
	if reply.NextCall != nil && reply.NextCall.Tool == api.ToolAttest {
		return fmt.Sprintf("`kairos runs attest %s success MESSAGE --run-id %s` closes the run", reply.CurrentStep.URI, reply.RunID)
	}
	return fmt.Sprintf("`kairos runs next %s --run-id %s --follow` asks for the solution of this step and of those behind it", reply.CurrentStep.URI, reply.RunID)
}
