package play

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/flags"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

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
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				reply, err := t.Call(ctx, row.Declaration, arguments)
				if err != nil {
					return err
				}
				return output.PrintJSON(cmd.OutOrStdout(), reply)
			})
		},
	}
}
