package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

// explainUsage lets a command and those below it say how they are used when they
// are used wrongly. A group of commands refuses one that it does not have,
// instead of printing its help as if nothing were wrong.
func explainUsage(cmd *cobra.Command) {
	if cmd.HasSubCommands() && !cmd.Runnable() && cmd.HasParent() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			meant := ""
			var names []string
			for _, below := range cmd.Commands() {
				names = append(names, below.Name())
			}
			if closest := fields.Closest(args[0], names); closest != "" {
				meant = fmt.Sprintf("; did you mean %q?", closest)
			}
			return fmt.Errorf("unknown command %q for %q%s `%s --help` lists them", args[0], cmd.CommandPath(), cmp.Or(meant, ";"), cmd.CommandPath())
		}
	} else if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%w\n  usage: %s", err, cmd.UseLine())
			}
			return nil
		}
	}
	for _, below := range cmd.Commands() {
		explainUsage(below)
	}
}
