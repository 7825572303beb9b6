// Package tree has the commands that check and explain the decision tree.
package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/reference"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/yamldoc"
)

// Command is `kairos tree`.
func Command(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "tree", Short: "Show, check and explain the decision tree", Example: "  kairos tree show\n  kairos tree check new.yaml"}
	cmd.AddCommand(
		treeCheckCommand(at),
		&cobra.Command{
			Use: "show", Short: "Show the decision tree in use", Args: cobra.NoArgs,
			Example: "  kairos tree show > tree.yaml",
			RunE: func(cmd *cobra.Command, _ []string) error {
				c, err := at.Load()
				if err != nil {
					return err
				}
				src, err := c.TreeSource()
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(src.YAML)
				return err
			},
		},
		treeExplainCommand(at),
	)
	return cmd
}

// treeReport is what `tree check` prints.
type treeReport struct {
	OK       bool              `json:"ok"`
	Problems []yamldoc.Problem `json:"problems"`
	Warnings []string          `json:"warnings,omitempty"`
}

func treeCheckCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "check [FILE]", Short: "Check a decision tree against the locked drivers", Args: cobra.MaximumNArgs(1),
		Long: "Checks the decision tree, or FILE, against the locked drivers. It warns of names of spaces in the tree and in the rules\n" +
			"that no space of the database has.",
		Example: "  kairos tree check\n  kairos tree check tree.yaml -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			tree, err := at.Tree(strings.Join(args, ""))
			var refused *yamldoc.LoadError
			if err != nil && (*out == output.FormatText || !errors.As(err, &refused)) {
				return err
			}
			r := treeReport{OK: err == nil, Problems: []yamldoc.Problem{}}
			if refused != nil {
				r.Problems = refused.Problems
			}
			if err == nil {
				r.Warnings = unknownSpaces(cmd.Context(), at, tree)
			}
			return errors.Join(out.Print(cmd.OutOrStdout(), r, func(p *output.Printer) {
				p.Printf("ok\n")
				for _, warning := range r.Warnings {
					p.Printf("warning: %s\n", warning)
				}
			}), err)
		},
	}
	return out.AddTo(cmd)
}

// unknownSpaces warns of names in the tree and the rules that no space has. Where nobody can be
// asked for the spaces there are none.
func unknownSpaces(ctx context.Context, at *session.Session, tree *decision.Tree) (warnings []string) {
	c, err := at.Load()
	if err != nil {
		return nil
	}
	set, err := c.CompileRules()
	if err != nil {
		return []string{"the rules are not checked, because they have mistakes: `kairos config check` names them"}
	}
	var known []string
	err = at.WithTools(ctx, func(ctx context.Context, t api.Transport) error {
		reply, err := reference.Spaces(ctx, t, false)
		for _, space := range reply.Spaces {
			known = append(known, strings.ToLower(protocol.SpaceName(space.SpaceID)))
		}
		return err
	})
	named := append(tree.Spaces(), set.Spaces()...)
	slices.Sort(named)
	for _, name := range slices.Compact(named) {
		if err == nil && !slices.Contains(known, strings.ToLower(protocol.SpaceName(name))) {
			warnings = append(warnings, fmt.Sprintf("no space is named %q%s; `kairos spaces create` creates one", name, yamldoc.Suggest(name, known)))
		}
	}
	return warnings
}
