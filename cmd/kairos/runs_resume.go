package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// runsResume is `kairos runs resume`.
func runsResume(at *session, out *format) *cobra.Command {
	var file string
	var goOn bool
	var f playFlags
	cmd := &cobra.Command{
		Use: "resume RUN|--file FILE [RUN]", Short: "Show the open step of a run again, or go on with it here",
		Long: "Shows the open step of a run with a fresh nonce, and the call that goes on with it; whatever client had the run\n" +
			"before has to resume it, too, before it can submit anything. FILE is a kairos-session-handover.txt: it says which\n" +
			"run is meant, and the database says where it stands. With --play the run is played in this terminal, as\n" +
			"`kairos run` does.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && file == "" {
				return errors.New("name one run, or a handover file with --file; `kairos runs list` shows the runs")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var r resumption
			err := at.with(cmd.Context(), func(ctx context.Context, a *app) (err error) {
				if r, err = a.resumption(ctx, file, args); err != nil || goOn {
					return err
				}
				return a.resume(ctx, cmd, *out, r)
			})
			if err != nil || !goOn {
				return err
			}
			f.session = string(r.id)
			return play(cmd, at, f, []string{r.uri})
		},
	}
	f.addTo(cmd)
	cmd.Flags().StringVar(&file, "file", "", "handover file that names the run")
	cmd.Flags().BoolVar(&goOn, "play", false, "play the rest of the run in this terminal")
	cmd.Flags().BoolVar(&at.dev, "dev", false, devHelp)
	return cmd
}

// resumption is a run to go on with.
type resumption struct {
	id  run.ID
	uri string // of its protocol
	// said is the step that a handover file says is open; 0: none was read.
	said int
	file string
}

// resumption finds the run that is meant.
func (a *app) resumption(ctx context.Context, file string, args []string) (resumption, error) {
	var id run.ID
	if len(args) == 1 {
		id = run.ID(args[0])
	}
	if file != "" {
		b, err := a.config.handed(file, id)
		return resumption{id: b.Session, uri: b.ChainURI, said: b.StepIndex, file: file}, err
	}
	s, err := a.engine.Standing(ctx, id)
	if err == nil && s.Run.Principal != localPrincipal {
		err = fault.New(fault.NotFound, "no run of yours")
	}
	if err = a.missing(ctx, id, err); err != nil {
		return resumption{}, err
	}
	return resumption{id: id, uri: s.URI}, err
}

// resume shows the open step of the run.
func (a *app) resume(ctx context.Context, cmd *cobra.Command, out format, r resumption) error {
	round, err := a.engine.Begin(ctx, a.caller(), api.BeginRequest{URI: r.uri, SessionID: string(r.id)})
	switch code := fault.CodeOf(err); {
	case r.file != "" && code == fault.NotFound:
		return fmt.Errorf("%s is out of date: run %s is not in this database any more", r.file, r.id)
	case r.file != "" && code == fault.NoOpenRun:
		return fmt.Errorf("%s is out of date: %w", r.file, err)
	case err != nil:
		return err
	case round.Reply == nil:
		return errors.New("the step asks the client, and a command is none; use --play")
	}
	reply := *round.Reply
	if r.file != "" && reply.StepIndex != min(r.said, reply.StepCount) {
		tell(cmd.ErrOrStderr(), "%s is older than the run: it says step %d, open is step %d\n", r.file, r.said, reply.StepIndex)
	}
	return out.print(cmd.OutOrStdout(), reply, func(p *printer) { p.resumed(reply) })
}

// resumed tells the open step and how to go on.
func (p *printer) resumed(reply api.StepReply) {
	p.printf("run %s, step %d of %d: %s\n\n", reply.RunID, reply.StepIndex, reply.StepCount, reply.CurrentStep.URI)
	p.document(reply.CurrentStep.Content)
	p.printf("\n")
	p.field("challenge", reply.Challenge.Description)
	p.field("message", reply.Message)
	p.field("next", reply.NextAction)
	if reply.NextCall != nil {
		p.field("call", reply.NextCall.Tool+" "+api.Readable(reply.NextCall.Arguments))
	}
}
