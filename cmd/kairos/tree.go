package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func treeCommand(at *session) *cobra.Command {
	cmd := &cobra.Command{Use: "tree", Short: "Show, check, explain and draw the decision tree"}
	cmd.AddCommand(
		treeCheckCommand(at),
		&cobra.Command{
			Use: "show", Short: "Print the tree that is in use, as a start for one of your own", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				c, err := at.load()
				if err != nil {
					return err
				}
				src, err := c.treeSource()
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(src.YAML)
				return err
			},
		},
		&cobra.Command{
			Use: "graph [FILE]", Short: "Print the tree as a Mermaid picture", Args: cobra.MaximumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				tree, err := at.tree(strings.Join(args, ""))
				if err != nil {
					return err
				}
				p := &printer{w: cmd.OutOrStdout()}
				p.verbatim(tree.Graph())
				return p.err
			},
		},
		treeExplainCommand(at), treeCoverageCommand(at), treeDiffCommand(at),
	)
	return cmd
}

// treeReport is what `tree check` prints.
type treeReport struct {
	OK       bool               `json:"ok"`
	Problems []decision.Problem `json:"problems"`
}

func treeCheckCommand(at *session) *cobra.Command {
	out := new(format)
	cmd := &cobra.Command{
		Use: "check [FILE]", Short: "Compile a tree against the locked drivers and report every error", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := at.tree(strings.Join(args, ""))
			var refused *decision.LoadError
			if err != nil && (*out == formatText || !errors.As(err, &refused)) {
				return err
			}
			r := treeReport{OK: err == nil, Problems: []decision.Problem{}}
			if refused != nil {
				r.Problems = refused.Problems
			}
			return errors.Join(out.print(cmd.OutOrStdout(), r, func(p *printer) { p.printf("ok\n") }), err)
		},
	}
	out.addTo(cmd)
	return cmd
}

// tree compiles the tree of a file, or of an empty one the configured tree.
func (s session) tree(file string) (*decision.Tree, error) {
	c, err := s.load()
	if err != nil {
		return nil, err
	}
	if file != "" {
		c.Tree = file
	}
	return c.compileTree()
}

func treeExplainCommand(at *session) *cobra.Command {
	var challengeFile, clientFile, kind, runID string
	var supplied bool
	var step int
	out := new(format)
	cmd := &cobra.Command{
		Use:   "explain --challenge FILE [--client FILE] | --run RUN [--step N]",
		Short: "Walk the tree for a challenge and a client, or as a run did, with the reason at each node",
		Example: `  kairos tree explain --run 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2 --step 2
  kairos tree explain --challenge challenge.json --client caps.json
  caps.json: {"name": "my-client", "era": "2025-11-25", "elicitation": {"form": true}, "sampling": true}`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case runID == "" && cmd.Flags().Changed("step"):
				return errors.New("--step is of a run: name it with --run")
			case runID == "" && challengeFile == "":
				return errors.New("name a file with --challenge, or a run with --run")
			}
			for _, flag := range []string{"challenge", "client", "input", "supplied"} {
				if runID != "" && cmd.Flags().Changed(flag) {
					return fmt.Errorf("--%s does not go with --run: a run has a challenge, a client and inputs of its own, and all of them are explained", flag)
				}
			}
			if !slices.Contains(inputKinds, kind) {
				return fmt.Errorf("--input is %q: must be one of %s", kind, strings.Join(inputKinds, ", "))
			}
			c, err := at.load()
			if err != nil {
				return err
			}
			tree, err := c.compileTree()
			if err != nil {
				return err
			}
			if runID != "" {
				return at.withRun(cmd.Context(), runID, func(ctx context.Context, a *app, id run.ID) error {
					list, err := a.explainRun(ctx, tree, id, step, cmd.ErrOrStderr())
					if err != nil {
						return err
					}
					return out.print(cmd.OutOrStdout(), list, func(p *printer) { p.walked(list) })
				})
			}
			facts, err := factsOf(tree, challengeFile, clientFile)
			if err != nil {
				return err
			}
			facts.Config = c.facts()
			facts.Solution.Supplied = supplied
			d := tree.Decide(kind, facts)
			return out.print(cmd.OutOrStdout(), d, func(p *printer) { p.explain(d) })
		},
	}
	out.addTo(cmd)
	cmd.Flags().StringVar(&challengeFile, "challenge", "", "JSON file with the challenge object of a step")
	cmd.Flags().StringVar(&clientFile, "client", "", "JSON file with the client's facts; empty: a client without capabilities")
	cmd.Flags().StringVar(&kind, "input", driver.KindEvidence, "kind of input: "+strings.Join(inputKinds, ", "))
	cmd.Flags().BoolVar(&supplied, "supplied", false, "the agent submitted a solution")
	cmd.Flags().StringVar(&runID, "run", "", "explain what was decided in this run instead")
	cmd.Flags().IntVar(&step, "step", 0, "only this step of the run, from 1")
	return cmd
}

// inputKinds are the kinds of input that a tree has routes for.
var inputKinds = []string{driver.KindEvidence, driver.KindApproval, driver.KindFiles, driver.KindRunInput, driver.KindJudge}

// factsOf reads a challenge, bare or wrapped as in a protocol, and a client.
func factsOf(tree *decision.Tree, challengeFile, clientFile string) (decision.Facts, error) {
	var f decision.Facts
	b, err := readFile(challengeFile)
	if err != nil {
		return f, fmt.Errorf("read the challenge: %w", err)
	}
	var wrapped struct {
		Challenge json.RawMessage `json:"challenge"`
	}
	if json.Unmarshal(b, &wrapped) == nil && len(wrapped.Challenge) > 0 {
		b = wrapped.Challenge
	}
	common, err := protocol.CommonOf(b)
	if err != nil {
		return f, fmt.Errorf("challenge %s: %w", challengeFile, err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return f, fmt.Errorf("challenge %s: %w", challengeFile, err)
	}
	if common.Type == "" {
		common.Type = tree.MissingType()
	}
	f.Challenge = decision.ChallengeFacts{
		Type: common.Type, Name: common.Name, Required: common.IsRequired(), HasSampling: common.Sampling != nil,
		HasOutputSchema: len(common.OutputSchema) > 0, FilesRequired: common.FilesRequired,
	}
	if params := members[common.Type]; len(params) > 0 {
		if err := json.Unmarshal(params, &f.Challenge.Params); err != nil {
			return f, fmt.Errorf("challenge %s: %q must be an object", challengeFile, common.Type)
		}
	}
	f.Step = decision.StepFacts{Index: 1, Count: 1, Name: common.Name, Approval: common.ApprovalMode}
	f.Run.Attempt = 1
	if clientFile == "" {
		return f, nil
	}
	if b, err = readFile(clientFile); err != nil {
		return f, fmt.Errorf("read the client's facts: %w", err)
	}
	if f.Client, err = readClient(b); err != nil {
		return f, fmt.Errorf("client %s: %w", clientFile, err)
	}
	return f, nil
}
