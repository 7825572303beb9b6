// Package tree has the commands that check and explain the decision tree.
package tree

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
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
}

func treeCheckCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "check [FILE]", Short: "Check a decision tree against the locked drivers", Args: cobra.MaximumNArgs(1),
		Example: "  kairos tree check\n  kairos tree check tree.yaml -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := at.Tree(strings.Join(args, ""))
			var refused *yamldoc.LoadError
			if err != nil && (*out == output.FormatText || !errors.As(err, &refused)) {
				return err
			}
			r := treeReport{OK: err == nil, Problems: []yamldoc.Problem{}}
			if refused != nil {
				r.Problems = refused.Problems
			}
			return errors.Join(out.Print(cmd.OutOrStdout(), r, func(p *output.Printer) { p.Printf("ok\n") }), err)
		},
	}
	return out.AddTo(cmd)
}
