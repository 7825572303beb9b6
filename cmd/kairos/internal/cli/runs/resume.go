package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/play"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// runsResume is `kairos runs resume`.
func runsResume(at *session.Session, out *output.Format) *cobra.Command {
	var file string
	var playRest bool
	var f play.Flags
	cmd := &cobra.Command{
		Use: "resume RUN|--file FILE [RUN]", Short: "Resume a run",
		Long: "Shows the open step of a run with a fresh nonce, and the call that continues it. A client that had the run before must\n" +
			"resume it as well before it can submit anything. FILE is a kairos-session-handover.txt: it names the run, and the\n" +
			"database knows the open step. With --play the run continues in this terminal, as with `kairos run`.",
		Example: "  kairos runs resume 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2\n  kairos runs resume --file kairos-session-handover.txt --play",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && file == "" {
				return errors.New("name one run, or a handover file with --file; `kairos runs list` shows the runs")
			}
			return nil
		},
		ValidArgsFunction: at.CompleteRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			var r resumption
			err := at.With(cmd.Context(), func(ctx context.Context, a *app.App) (err error) {
				if r, err = findResumption(ctx, a, file, args); err != nil {
					return err
				}
				if playRest {
					r.inFiles = inFiles(ctx, a, r.uri)
					return nil
				}
				return resume(ctx, a, cmd, *out, r)
			})
			if err != nil || !playRest {
				return err
			}
			f.Session, f.Files = string(r.id), r.inFiles
			return play.Play(cmd, at, f, []string{r.uri})
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
	id  run.ID
	uri string // of its protocol
	// said is the step that a handover file says is open; 0: none was read.
	said int
	file string
	// inFiles: its protocol is in the space of files.
	inFiles bool
}

// findResumption finds the run that is meant.
func findResumption(ctx context.Context, a *app.App, file string, args []string) (resumption, error) {
	var id run.ID
	if len(args) == 1 {
		id = run.ID(args[0])
	}
	if file != "" {
		b, err := handoverBlock(file, id)
		return resumption{id: b.Session, uri: b.ChainURI, said: b.StepIndex, file: file}, err
	}
	id, err := session.FindRun(ctx, session.Local(a), string(id))
	if err != nil {
		return resumption{}, err
	}
	s, err := a.Engine.Standing(ctx, id)
	if err == nil && s.Run.Principal != app.LocalPrincipal {
		err = fault.New(fault.NotFound, "no run of yours")
	}
	if err = session.Missing(ctx, a, id, err); err != nil {
		return resumption{}, err
	}
	return resumption{id: id, uri: s.URI}, err
}

// inFiles reports whether the protocol is in the space of files.
func inFiles(ctx context.Context, a *app.App, uri string) bool {
	caller := a.RunCaller()
	caller.Space, caller.Groups = app.FilesSpace, nil
	_, err := a.Engine.Dump(ctx, caller, api.DumpRequest{URI: uri})
	return err == nil
}

// resume shows the open step of the run.
func resume(ctx context.Context, a *app.App, cmd *cobra.Command, out output.Format, r resumption) error {
	round, err := a.Engine.Begin(ctx, a.RunCaller(), api.BeginRequest{URI: r.uri, SessionID: string(r.id)})
	switch code := fault.CodeOf(err); {
	case r.file != "" && code == fault.NotFound:
		return fmt.Errorf("%s is out of date: %w", r.file, session.Missing(ctx, a, r.id, err))
	case r.file != "" && code == fault.NoOpenRun:
		return fmt.Errorf("%s is out of date: %w", r.file, err)
	case err != nil:
		return err
	case round.Reply == nil:
		return errors.New("the step asks the client, and a command is none; use --play")
	}
	reply := *round.Reply
	if r.file != "" && reply.StepIndex != min(r.said, reply.StepCount) {
		output.Tell(cmd.ErrOrStderr(), "%s is older than the run: it says step %d, open is step %d\n", r.file, r.said, reply.StepIndex)
	}
	return out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) { printResumed(p, reply) })
}

// printResumed prints the open step and how to continue.
func printResumed(p *output.Printer, reply api.StepReply) {
	p.Printf("run %s, step %d of %d: %s\n\n", reply.RunID, reply.StepIndex, reply.StepCount, reply.CurrentStep.URI)
	p.Document(reply.CurrentStep.Content)
	p.Printf("\n")
	p.Field("challenge", reply.Challenge.Description)
	p.Field("message", reply.Message)
	p.Field("next", reply.NextAction)
	if reply.NextCall != nil {
		p.Field("call", reply.NextCall.Tool+" "+api.Readable(reply.NextCall.Arguments))
	}
}
