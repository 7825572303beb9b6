package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

func beginCommand(at *session) *cobra.Command {
	var in api.BeginRequest
	var roots []string
	input := ""
	out := new(format)
	cmd := &cobra.Command{
		Use: "begin URI", Short: "Begin a run of a protocol, or show where one stands", Args: cobra.ExactArgs(1), Annotations: asksServers,
		Long: `Begins a run of the protocol that the URI belongs to and shows its first step. With --session it shows the open step
of a run that is under way, with a fresh nonce. kairos next --follow goes on.`,
		ValidArgsFunction: at.completeURI,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			in.URI = stepURI(args[0])
			if cmd.Flags().Changed("input") {
				if in.Input, err = jsonObject("--input", input); err != nil {
					return err
				}
			}
			in.Roots = fixed(roots)
			return at.withTools(cmd.Context(), func(ctx context.Context, t tools) error {
				reply, err := t.Begin(ctx, in)
				if err != nil {
					return err
				}
				return printStep(cmd, *out, reply)
			})
		},
	}
	out.addToTool(cmd, formatJSON)
	cmd.Flags().StringVar(&input, "input", "", "input of the run, a JSON object")
	cmd.Flags().StringVar(&in.SessionID, "session", "", "id of the run to go on with")
	cmd.Flags().StringArrayVar(&roots, "root", nil, "folder that the run works in, for steps that demand files; may be repeated")
	return cmd
}

// fixed makes roots independent of where the command runs. URIs stay as they are.
func fixed(roots []string) []string {
	var out []string
	for _, root := range roots {
		if strings.Contains(root, "://") {
			out = append(out, root)
			continue
		}
		out = append(out, absolute(root)...)
	}
	return out
}

// printStep prints a reply. In Markdown it is the text of the step alone, so
// what went wrong is told beside it.
func printStep(cmd *cobra.Command, out format, reply api.StepReply) error {
	if out.forPeople() && reply.ErrorCode != "" {
		tell(cmd.ErrOrStderr(), "%s\n", lines(message(runError(reply))))
	}
	return out.print(cmd.OutOrStdout(), reply, func(p *printer) { p.document(reply.CurrentStep.Content) })
}

// noSingleRun reports whether a call was refused because no run, or more than one,
// is open.
func noSingleRun(code fault.Code) bool { return code == fault.NoOpenRun || code == fault.AmbiguousRun }

// printRefusal prints the reply to a call that found no step to show, such as
// one without an open run. It is a reply like any other: an error of the command
// only if strict is set.
func printRefusal(cmd *cobra.Command, out format, refused *fault.Error, strict bool) error {
	if strict {
		return refused
	}
	return out.print(cmd.OutOrStdout(), refused.Reply("kairos_next"), func(p *printer) {
		tell(cmd.ErrOrStderr(), "%s\n", lines(message(refused)))
	})
}

// runError is what a reply reports to have gone wrong.
func runError(reply api.StepReply) error {
	return fault.New(fault.Code(reply.ErrorCode), "%s", reply.Message).WithNext("%s", reply.NextAction)
}

func nextCommand(at *session) *cobra.Command {
	var in api.NextRequest
	var solutions []string
	follow, strict := false, false
	out := new(format)
	cmd := &cobra.Command{
		Use: "next URI", Short: "Submit a solution for the open step of a run", Args: cobra.ExactArgs(1), Annotations: asksServers,
		Long: `Submits a solution and shows the step that is open then. With --follow it walks the run to its end: each --solution is
for one step, then each line of standard input is, and at a terminal you are asked. What is missing of type, nonce and
proof_hash is filled in. A reply that reports an error is printed, with exit status 0 unless --strict or --follow is given.`,
		Example: `  kairos next URI --solution '{"type":"shell","nonce":"...","proof_hash":"...","shell":{"exit_code":0}}'
  kairos next URI --follow --solution '{"shell":{"exit_code":0}}' --solution '{"comment":{"text":"..."}}'`,
		ValidArgsFunction: at.completeURI,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.URI = stepURI(args[0])
			given, err := readSolutions(solutions)
			if err != nil {
				return err
			}
			if len(given) > 1 && !follow {
				return errors.New("several --solution need --follow: each is for one step")
			}
			return at.withTools(cmd.Context(), func(ctx context.Context, t tools) error {
				if follow {
					return newWalk(cmd, at, t, *out, given).run(ctx, in)
				}
				if len(given) == 1 {
					in.Solution = given[0]
				}
				reply, err := t.Next(ctx, in)
				if refused := (*fault.Error)(nil); errors.As(err, &refused) && noSingleRun(refused.Code) {
					return printRefusal(cmd, *out, refused, strict)
				}
				if err != nil {
					return err
				}
				err = printStep(cmd, *out, reply)
				if strict && reply.ErrorCode != "" {
					err = errors.Join(err, runError(reply))
				}
				return err
			})
		},
	}
	out.addToTool(cmd, formatMarkdown)
	cmd.Flags().StringArrayVar(&solutions, "solution", nil, "the solution, a JSON object")
	cmd.Flags().BoolVar(&follow, "follow", false, "walk the run to its end")
	cmd.Flags().StringVar(&in.RunID, "run-id", "", "the run, where several are open")
	strictFlag(cmd, &strict)
	return cmd
}

func readSolutions(texts []string) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for _, text := range texts {
		s, err := jsonObject("--solution", text)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func attestCommand(at *session) *cobra.Command {
	var in api.AttestRequest
	out, strict, to := new(format), false, ""
	cmd := &cobra.Command{
		Use: "attest URI success|failure MESSAGE", Short: "Close a run and say how it ended", Args: cobra.ExactArgs(3), Annotations: asksServers,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []cobra.Completion{"success", "failure"}, cobra.ShellCompDirectiveNoFileComp
			}
			return at.completeURI(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in.URI, in.Outcome, in.Message = stepURI(args[0]), args[1], args[2]
			return at.withAttester(cmd.Context(), to, func(ctx context.Context, attest attester) error {
				reply, err := attest(ctx, in)
				if err != nil && reply.RunID == "" {
					return at.missing(in, err)
				}
				stated := err // the run is closed all the same
				err = errors.Join(out.print(cmd.OutOrStdout(), reply, func(p *printer) { p.attested(reply) }), stated)
				if strict && reply.ErrorCode != "" {
					err = errors.Join(err, fault.New(fault.Code(reply.ErrorCode), "%s", reply.Message))
				}
				return err
			})
		},
	}
	out.addToTool(cmd, formatJSON)
	cmd.Flags().Float64Var(&in.QualityBonus, "quality-bonus", 0, "added to the rating")
	cmd.Flags().StringVar(&in.ModelID, "model", "", "who rates")
	cmd.Flags().StringVar(&in.RunID, "run-id", "", "the run, where several are open")
	cmd.Flags().StringVar(&to, "statement", "", "write a signed statement of the run into this file, as kairos runs export does")
	strictFlag(cmd, &strict)
	return cmd
}

// missing is what an operator can use of an attestation's error, where the run
// that was named is not in the local database.
func (s session) missing(in api.AttestRequest, err error) error {
	if in.RunID == "" || fault.CodeOf(err) != fault.NotFound || s.server() != "" || !strings.Contains(err.Error(), in.RunID) {
		return err
	}
	c, loadErr := s.load()
	if loadErr != nil {
		return err
	}
	return noSuchRun(in.RunID, c.Database)
}

func (p *printer) attested(reply api.AttestReply) {
	verified := "not verified"
	if reply.Verified {
		verified = "verified"
	}
	p.printf("%s: %s\n", verified, lines(reply.Message))
	for _, uri := range reply.MissingSteps {
		p.printf("- no accepted proof: %s\n", uri)
	}
	for _, id := range reply.Candidates {
		p.printf("- may be meant: run %s\n", id)
	}
	if reply.RunID != "" {
		p.printf("\nrun %s\n", reply.RunID)
	}
}
