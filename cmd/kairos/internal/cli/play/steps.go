package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/flags"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/reference"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

func beginCommand(at *session.Session) *cobra.Command {
	var in api.BeginRequest
	var roots []string
	input := ""
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "begin URI|TITLE|FILE", Short: "Begin a run of a protocol, or show its open step", Args: cobra.ExactArgs(1), Annotations: session.AsksServers,
		Long: `Begins a run of the protocol that the URI belongs to, or that has the title, and shows its first step. With --session it shows the open step
of a run that is under way, with a fresh nonce. kairos runs next --follow continues it.`,
		Example:           "  kairos runs begin 'Release a version'\n  kairos runs begin kairos://mem/... --input '{\"version\": \"1.2\"}'",
		ValidArgsFunction: at.CompleteURI,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if cmd.Flags().Changed("input") {
				if in.Input, err = flags.JSONObject("--input", input); err != nil {
					return err
				}
			}
			in.Roots = fixed(roots)
			return quiet(at).WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				named, err := reference.Find(ctx, t, args[0])
				if err != nil {
					return err
				}
				in.URI = named.URI
				reply, err := api.Begin.Call(ctx, t, in)
				if err != nil {
					return err
				}
				return printStep(cmd, *out, reply, at.URL)
			})
		},
	}
	out.AddToTool(cmd)
	cmd.Flags().StringVar(&input, "input", "", "input of the run, a JSON object")
	cmd.Flags().StringVar(&in.SessionID, "session", "", "id of the run to resume")
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
		out = append(out, files.Absolute(root)...)
	}
	return out
}

// printStep prints a reply of the server at the url, if it was named. In Markdown it
// is the text of the step alone, so what went wrong is told beside it.
func printStep(cmd *cobra.Command, out output.Format, reply api.StepReply, url string) error {
	if out.ForPeople() && reply.ErrorCode != "" {
		output.Tell(cmd.ErrOrStderr(), "%s\n", output.Lines(output.Message(runError(reply))))
	}
	return out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) {
		p.Document(plain.Text(reply.CurrentStep.Content))
		if out == output.FormatText {
			p.Printf("\n%s", output.Lines(continuation(reply, url)))
		}
	})
}

// runFlag gives a command --run-id; openRun reads it.
func runFlag(cmd *cobra.Command, at *session.Session, named *string) {
	cmd.Flags().StringVar(named, "run-id", "", "the run, where several are open")
	complete := func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return at.CompleteRuns(cmd, nil, typed)
	}
	if err := cmd.RegisterFlagCompletionFunc("run-id", complete); err != nil {
		panic(err) // the flag is there
	}
}

// openRun is the id of the run that --run-id names, by its id or the end of that;
// empty: none was named.
func openRun(ctx context.Context, t api.Transport, named string) (string, error) {
	if named == "" {
		return "", nil
	}
	id, err := session.FindRun(ctx, t, named)
	return string(id), err
}

// runOptions name the run, and the server if it was named.
func runOptions(reply api.StepReply, url string) string {
	s := ""
	if reply.RunID != "" {
		s += " --run-id " + reply.RunID
	}
	if url != "" {
		s += " --url " + url
	}
	return s
}

// continuation names the command that comes next.
func continuation(reply api.StepReply, url string) string {
	call := callAfter(reply)
	if call.tool == api.ToolAttest {
		return fmt.Sprintf("All steps are complete. Close the run with:\n\nkairos runs attest %s success \"what was achieved\"%s\n", call.uri, runOptions(reply, url))
	}
	return fmt.Sprintf("Continue the run with:\n\nkairos runs next %s --follow%s\n", call.uri, runOptions(reply, url))
}

// noSingleRun reports whether a call was refused because no run, or more than one,
// is open.
func noSingleRun(code fault.Code) bool { return code == fault.NoOpenRun || code == fault.AmbiguousRun }

// printRefusal prints the reply to a call that found no step to show, such as
// one without an open run. It is a reply like any other: an error of the command
// only if strict is set.
func printRefusal(cmd *cobra.Command, out output.Format, refused *fault.Error, strict bool) error {
	if strict {
		return refused
	}
	return out.Print(cmd.OutOrStdout(), refused.Reply("kairos_next"), func(p *output.Printer) {
		output.Tell(cmd.ErrOrStderr(), "%s\n", output.Lines(output.Message(refused)))
	})
}

// runError is what a reply reports to have gone wrong.
func runError(reply api.StepReply) error {
	return fault.New(fault.Code(reply.ErrorCode), "%s", reply.Message)
}

func nextCommand(at *session.Session) *cobra.Command {
	var in api.NextRequest
	var solutions []string
	follow, strict := false, false
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "next URI|TITLE|FILE", Short: "Submit a solution for the open step of a run", Args: cobra.ExactArgs(1), Annotations: session.AsksServers,
		Long: `Submits a solution and shows the next open step. With --follow the command continues to the end of the run: each --solution
is for one step, then each line of standard input, and at a terminal it asks you. Missing type, nonce and proof_hash are
filled in. The title of a protocol, or a file that holds it, means its open run. A reply that reports an error is printed with exit status 0, unless --strict or --follow is given.`,
		Example: `  kairos runs next 'Release a version' --follow
  kairos runs next 'Release a version' --solution '{"shell":{"exit_code":0}}'
  kairos runs next URI --follow --solution '{"shell":{"exit_code":0}}' --solution '{"comment":{"text":"..."}}'`,
		ValidArgsFunction: at.CompleteURI,
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := readSolutions(solutions)
			if err != nil {
				return err
			}
			if len(given) > 1 && !follow {
				return errors.New("several --solution need --follow: each is for one step")
			}
			return quiet(at).WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				named, err := reference.Find(ctx, t, args[0])
				if err != nil {
					return err
				}
				in.URI = named.URI
				if in.RunID, err = openRun(ctx, t, in.RunID); err != nil {
					return err
				}
				if follow {
					return newWalk(cmd, at, t, *out, given).run(ctx, in)
				}
				reply, err := submit(ctx, t, in, given)
				if refused := (*fault.Error)(nil); errors.As(err, &refused) && noSingleRun(refused.Code) {
					return printRefusal(cmd, *out, refused, strict)
				}
				if err != nil {
					return err
				}
				err = printStep(cmd, *out, reply, at.URL)
				if strict && reply.ErrorCode != "" {
					err = errors.Join(err, runError(reply))
				}
				return err
			})
		},
	}
	out.AddToTool(cmd)
	cmd.Flags().StringArrayVar(&solutions, "solution", nil, "the solution, a JSON object")
	cmd.Flags().BoolVar(&follow, "follow", false, "walk the run to its end")
	runFlag(cmd, at, &in.RunID)
	flags.Strict(cmd, &strict)
	return cmd
}

func readSolutions(texts []string) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for _, text := range texts {
		s, err := flags.JSONObject("--solution", text)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func callCommand(at *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "call TOOL [ARGUMENTS]", Short: "Call a tool with JSON, as agents do", Args: cobra.RangeArgs(1, 2), Annotations: session.AsksServers,
		Long: `Calls any of the tools that agents have and prints its reply, both as JSON. The other commands for tools print what
people read; this one suits scripts.`,
		Example: `  kairos call kairos_search '{"query": "release a version"}'
  kairos call kairos_spaces --url http://127.0.0.1:3300`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return toolset.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			row, err := toolset.Named(args[0])
			if err != nil {
				return err
			}
			arguments := json.RawMessage("{}")
			if len(args) > 1 {
				if arguments, err = flags.JSONObject("ARGUMENTS", args[1]); err != nil {
					return err
				}
			}
			s := *at
			if row.Name == api.Mint.Name {
				s = s.Creating()
			}
			return s.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				reply, err := t.Call(ctx, row.Declaration, arguments)
				if err != nil {
					return err
				}
				return output.PrintJSON(cmd.OutOrStdout(), reply)
			})
		},
	}
}

// mayState finds out before the run is closed what can be found out of its statement.
func mayState(ctx context.Context, t api.Transport, path string) error {
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write the statement: %w", err)
	}
	_, err := operations.SigningKey.Call(ctx, t, operations.SigningKeyRequest{})
	return err
}

// state writes a signed statement of the run that was attested.
func state(ctx context.Context, t api.Transport, attested api.AttestReply, path string) error {
	if attested.RunID == "" {
		return fmt.Errorf("no run was attested, so there is nothing to state: %s", attested.Message)
	}
	in := operations.ExportRunRequest{RunRequest: operations.RunRequest{RunID: run.ID(attested.RunID)}}
	signed, err := operations.ExportRun.Call(ctx, t, in)
	if err == nil {
		err = output.WriteFile(io.Discard, path, "statement", []byte(signed.Statement))
	}
	if err != nil {
		err = fmt.Errorf("the run is attested, its statement is missing (`kairos runs export %s` makes it): %w", attested.RunID, err)
	}
	return err
}

func attestCommand(at *session.Session) *cobra.Command {
	var in api.AttestRequest
	out, strict, to := new(output.Format), output.IsTerminal(os.Stdout), ""
	cmd := &cobra.Command{
		Use: "attest URI|TITLE|FILE success|failure MESSAGE", Short: "Attest how a run ended, and close it", Args: cobra.ExactArgs(3), Annotations: session.AsksServers,
		Example: "  kairos runs attest 'Release a version' success 'released 1.2'\n  kairos runs attest kairos://mem/... failure 'the build broke' --run-id RUN",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []cobra.Completion{"success", "failure"}, cobra.ShellCompDirectiveNoFileComp
			}
			return at.CompleteURI(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Outcome, in.Message = args[1], args[2]
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				named, err := reference.Find(ctx, t, args[0])
				if err != nil {
					return err
				}
				in.URI = named.URI
				if in.RunID, err = openRun(ctx, t, in.RunID); err == nil && to != "" {
					err = mayState(ctx, t, to)
				}
				if err != nil {
					return err
				}
				reply, err := api.Attest.Call(ctx, t, in)
				if err != nil && in.RunID != "" {
					return session.Missing(ctx, t, run.ID(in.RunID), err)
				}
				if err = output.Reply(cmd, out, printAttested)(reply, err); err == nil && to != "" {
					err = state(ctx, t, reply, to)
				}
				if strict && reply.ErrorCode != "" {
					err = errors.Join(err, fault.New(fault.Code(reply.ErrorCode), "%s", reply.Message))
				}
				return err
			})
		},
	}
	out.AddToTool(cmd)
	cmd.Flags().Float64Var(&in.QualityBonus, "quality-bonus", 0, "added to the rating")
	cmd.Flags().StringVar(&in.ModelID, "model", "", "who rates")
	runFlag(cmd, at, &in.RunID)
	cmd.Flags().StringVar(&to, "statement", "", "write a signed statement of the run into this file, as kairos runs export does")
	flags.Strict(cmd, &strict)
	return cmd
}

func printAttested(p *output.Printer, reply api.AttestReply) {
	verified := "not verified"
	if reply.Verified {
		verified = "verified"
	}
	p.Printf("%s: %s\n", verified, output.Lines(output.Commands(plain.Continued(reply.Message))))
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

// unsolved: nobody gave a solution for the open step.
func (w *walk) unsolved(reply api.StepReply) error {
	why := reply.Challenge.Description
	if reply.ErrorCode != "" { // of the solution that was given last
		why = fmt.Sprintf("%s: %s", reply.ErrorCode, output.Commands(reply.Message))
	}
	return fmt.Errorf("step %d of %d is open and no solution is left: %s\n  next: continue with `kairos runs next %s --follow%s`",
		reply.StepIndex, reply.StepCount, why, reply.CurrentStep.URI, runOptions(reply, w.url))
}
