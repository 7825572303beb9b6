package tree

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/documents"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/reference"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// explained are the flags of `kairos tree explain`.
type explained struct {
	challengeFile, clientFile, kind string
	supplied                        bool
	runID                           string
	step                            int
	of, space                       string
}

func treeExplainCommand(at *session.Session) *cobra.Command {
	var in explained
	out := new(output.Format)
	cmd := &cobra.Command{
		Use:   "explain --challenge FILE [--client FILE] | --run RUN [--step N] | --protocol PROTOCOL [--space NAME]",
		Short: "Explain a decision, or what the rules demand of a protocol",
		Example: `  kairos tree explain --run 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2 --step 2
  kairos tree explain --space production --protocol 'Release a version'
  kairos tree explain --challenge challenge.json --client caps.json
  caps.json: {"name": "my-client", "era": "2025-11-25", "elicitation": {"form": true}, "sampling": true}`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := in.check(cmd); err != nil {
				return err
			}
			if in.of != "" {
				with := at.With
				if isFile(in.of) {
					with = at.Options.With // it needs no database
				}
				return with(cmd.Context(), func(ctx context.Context, a *app.App) error {
					return output.Reply(cmd, out, printRules)(rulesOf(ctx, a, cmd.InOrStdin(), in.of, in.space))
				})
			}
			if in.runID != "" {
				return at.WithLocalRun(cmd.Context(), in.runID, func(ctx context.Context, a *app.App, id run.ID) error {
					return output.Reply(cmd, out, printWalked)(explainRun(ctx, a, id, in.step, cmd.ErrOrStderr()))
				})
			}
			c, err := at.Load()
			if err != nil {
				return err
			}
			return output.Reply(cmd, out, func(p *output.Printer, d decision.Decision) { printExplanation(p, d) })(in.decide(c))
		},
	}
	out.AddTo(cmd)
	cmd.Flags().StringVar(&in.challengeFile, "challenge", "", "JSON file with the challenge object of a step")
	cmd.Flags().StringVar(&in.clientFile, "client", "", "JSON file with the client's facts; empty: a client without capabilities")
	cmd.Flags().StringVar(&in.kind, "input", driver.KindEvidence, "kind of input that the tree has routes for, such as approval, files or run_input")
	cmd.Flags().BoolVar(&in.supplied, "supplied", false, "the agent submitted a solution")
	cmd.Flags().StringVar(&in.runID, "run", "", "explain what was decided in this run instead")
	cmd.Flags().StringVar(&in.of, "protocol", "", "explain what the rules demand of this protocol: its title, its URI, or a Markdown file")
	cmd.Flags().StringVar(&in.space, "space", "", "the space in which the rules judge; default: that of the protocol, else your own")
	cmd.Flags().IntVar(&in.step, "step", 0, "only this step of the run, from 1")
	return cmd
}

// check reports flags that do not go together.
func (in explained) check(cmd *cobra.Command) error {
	switch {
	case in.runID == "" && cmd.Flags().Changed("step"):
		return errors.New("--step is of a run: name it with --run")
	case in.runID == "" && in.challengeFile == "" && !cmd.Flags().Changed("protocol"):
		return errors.New("name a file with --challenge, a run with --run, or a protocol with --protocol")
	case in.challengeFile != "" && cmd.Flags().Changed("protocol"):
		return errors.New("--protocol does not go with --challenge: the steps of a protocol have challenges of their own")
	}
	for _, flag := range []string{"challenge", "client", "input", "supplied", "protocol", "space"} {
		if in.runID != "" && cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s does not go with --run: a run has a challenge, a client and inputs of its own, and all of them are explained", flag)
		}
	}
	return nil
}

// decide decides for a challenge of a file as the tree does in a run.
func (in explained) decide(c config.Config) (d decision.Decision, err error) {
	tree, err := c.CompileTree()
	if err != nil {
		return d, err
	}
	if kinds := tree.Kinds(); !slices.Contains(kinds, in.kind) {
		return d, fmt.Errorf("--input is %q: must be one of %s, for which the tree has routes", in.kind, strings.Join(kinds, ", "))
	}
	facts, err := factsOf(tree, c, in.challengeFile, in.clientFile)
	if err != nil {
		return d, err
	}
	facts.Config = c.Facts()
	facts.Solution.Supplied = in.supplied
	if in.space != "" {
		facts.Protocol.Space = protocol.SpaceName(in.space)
	}
	d = tree.Decide(in.kind, facts)
	d.Rules, err = demanded(c, facts)
	return d, err
}

// factsOf reads a challenge, bare or wrapped as in a protocol, and a client.
func factsOf(tree *decision.Tree, c config.Config, challengeFile, clientFile string) (decision.Facts, error) {
	var f decision.Facts
	b, err := files.Read(challengeFile)
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
	f.Approval.How = drivers.ApprovalOf(drivers.ApprovalSources{Server: c.Approval.How, Step: common, Realm: config.RealmOf(c)}).How
	if clientFile == "" {
		return f, nil
	}
	if b, err = files.Read(clientFile); err != nil {
		return f, fmt.Errorf("read the client's facts: %w", err)
	}
	if f.Client, err = readClient(b); err != nil {
		return f, fmt.Errorf("client %s: %w", clientFile, err)
	}
	return f, nil
}

// demanded are the rules that match a challenge in the space, without what its driver would
// say that it does.
func demanded(c config.Config, facts decision.Facts) ([]string, error) {
	held, err := c.CompileRules()
	return held.ForText(rules.Subject{Facts: facts}).By, err
}

// ruled is what the rules demand of a step.
type ruled struct {
	Space string `json:"space"`
	library.Demanded
}

// isFile reports whether the protocol is one of a file, or of standard input.
func isFile(of string) bool { return of == "-" || documents.IsMarkdown(of) }

// rulesOf is what the rules demand of the steps of a protocol, of a file or a stored one.
func rulesOf(ctx context.Context, a *app.App, stdin io.Reader, of, space string) ([]ruled, error) {
	in := library.LintInput{Space: space}
	if isFile(of) {
		text, err := documents.Document{Name: of}.Read(ctx, stdin)
		if err != nil {
			return nil, err
		}
		in.Document, in.Space = string(text), cmp.Or(space, a.Caller().Space)
	} else {
		named, err := reference.Find(ctx, session.Local(a), of)
		if err != nil {
			return nil, err
		}
		chain, _, err := a.Engine.Library.FindStep(ctx, a.Caller(), named.URI)
		if err != nil {
			return nil, err
		}
		in.Stored, in.Space = &chain, cmp.Or(space, chain.Space)
	}
	linted, err := a.Engine.Library.Lint(ctx, in)
	if err != nil {
		return nil, err
	}
	out := []ruled{}
	for _, c := range linted.Chains {
		for i, s := range c.Steps {
			r := ruled{protocol.SpaceName(in.Space), library.Demanded{Protocol: c.Title, Step: i + 1, Label: s.Label, Line: s.Line}}
			for _, d := range linted.Demands {
				if d.Protocol == c.Title && d.Step == i+1 {
					r.Demanded = d
				}
			}
			out = append(out, r)
		}
	}
	return out, nil
}

func printRules(p *output.Printer, list []ruled) {
	for _, r := range list {
		p.Printf("%d. %s (space %s): %s\n", r.Step, r.Label, r.Space, cmp.Or(r.Demand.Words(), "no rule matches"))
		for _, rule := range r.Demand.By {
			p.Printf("   + %s\n", rule)
		}
		if why := r.Demand.Impossible(); why != "" {
			p.Printf("   nothing can meet that: %s\n", why)
		}
	}
}

// explainRun explains the decisions of a run, or with a step of that step. Of
// those that were erased it notes so.
func explainRun(ctx context.Context, a *app.App, id run.ID, step int, notes io.Writer) ([]archive.Decided, error) {
	made, err := a.Engine.Archive.Decisions(ctx, a.RunCaller(), id)
	if err != nil {
		return nil, err
	}
	line, err := a.Engine.Archive.Timeline(ctx, a.RunCaller(), id)
	if err != nil {
		return nil, err
	}
	if step < 0 || step > line.Run.StepCount {
		return nil, fmt.Errorf("--step is %d: run %s has steps 1 to %d", step, id, line.Run.StepCount)
	}
	for n := 1; n <= line.Run.StepCount; n++ {
		if at, erased := line.Erased(n); erased && (step == 0 || step == n) {
			(&output.Printer{W: notes}).Printf("note: what was decided for step %d was redacted %s: %s\n", n, output.Moment(at.At), at.Verdict)
		}
	}
	out := []archive.Decided{}
	for _, d := range made {
		if step == 0 || d.Step == step {
			out = append(out, d)
		}
	}
	if _, erased := line.Erased(step); len(out) == 0 && step != 0 && !erased {
		return nil, fmt.Errorf("nothing was decided for step %d of run %s", step, id)
	}
	return out, nil
}

// printExplanation prints a decision; what its conditions looked at comes from clients.
func printExplanation(p *output.Printer, d interface{ Explain(w io.Writer) error }) {
	var b strings.Builder
	if err := d.Explain(&b); err != nil && p.Err == nil {
		p.Err = err
	}
	p.Printf("%s", output.Lines(b.String()))
}

func printWalked(p *output.Printer, list []archive.Decided) {
	for _, x := range list {
		p.Printf("%s  step %d %q, %s\n", output.Moment(x.At), x.Step, x.Label, x.Input)
		printExplanation(p, x)
		switch {
		case x.Answered:
			p.Printf("   answered in %v\n", x.Took.Round(10*time.Microsecond))
		case x.Outcome != "":
			p.Printf("   %s after %v\n", x.Outcome, x.Took.Round(10*time.Microsecond))
		}
		p.Printf("\n")
	}
}

// readClient reads a client's facts as conditions name them. An unknown
// key is an error: otherwise the client would lack a capability without notice.
func readClient(text []byte) (c decision.ClientFacts, err error) {
	o := fields.Open(text, "")
	c.Name, _ = o.String("name")
	c.Version, _ = o.String("version")
	c.Era, _ = o.String("era")
	c.Transport, _ = o.String("transport")
	c.Sampling, _ = o.Bool("sampling")
	c.Roots, _ = o.Bool("roots")
	ways := o.Object("elicitation")
	c.Elicitation.Form, _ = ways.Bool("form")
	c.Elicitation.URL, _ = ways.Bool("url")
	if o.Has("capabilities") {
		if c.Capabilities = decision.Object(o.Raw("capabilities")); c.Capabilities == nil {
			o.Wrong("capabilities", "must be an object, as the client declares it in MCP")
		}
	}
	refuseUnknown(o, "name", "version", "era", "transport", "elicitation", "sampling", "roots", "capabilities")
	refuseUnknown(ways, "form", "url")
	if problems := o.Problems(); len(problems) > 0 {
		return c, errors.New(fields.Text(problems))
	}
	return c, nil
}

func refuseUnknown(o *fields.Object, known ...string) {
	for _, key := range o.Unknown() {
		meant := ""
		if closest := fields.Closest(key, known); closest != "" {
			meant = fmt.Sprintf(" did you mean %q?", closest)
		}
		o.Wrong(key, fmt.Sprintf("is not a fact of a client;%s there are %s", meant, strings.Join(known, ", ")))
	}
}
