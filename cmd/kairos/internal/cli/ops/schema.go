package ops

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/decision"
)

// challengeSchema describes what the core owns of a challenge; a test compares
// it with protocol.Common.
//
//go:embed challenge.schema.json
var challengeSchema []byte

func schemaCommand(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "schema", Short: "Print JSON Schemas for editors", Example: "  kairos schema config > kairos.schema.json"}
	cmd.AddCommand(&cobra.Command{
		Use:   "challenge",
		Short: "Print the JSON Schema of the challenge block of a step",
		Long: `Prints the JSON Schema of the challenge block of a step: the keys that all challenges have and one object for each
type that a driver handles. Only the driver knows the contents of
that object: kairos lint asks it.`,
		Example: "  kairos schema challenge > challenge.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, err := at.Tree("")
			if err != nil {
				return err
			}
			schema, err := schemaOf(tree.Types())
			if err != nil {
				return err
			}
			return output.PrintJSON(cmd.OutOrStdout(), schema)
		},
	}, fixedSchema("config", "Print the JSON Schema of the configuration file", config.Schema),
		fixedSchema("tree", "Print the JSON Schema of the decision tree", decision.Schema()))
	return cmd
}

// fixedSchema prints a schema that depends on nothing.
func fixedSchema(name, short string, schema []byte) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Example: "  kairos schema " + name + " > " + name + ".schema.json", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(schema)
			return err
		},
	}
}

// schemaOf is the schema of challenges of the types.
func schemaOf(types []string) (map[string]any, error) {
	var schema map[string]any
	if err := json.Unmarshal(challengeSchema, &schema); err != nil {
		return nil, fmt.Errorf("read the schema of challenges: %w", err)
	}
	challenge := schema["properties"].(map[string]any)["challenge"].(map[string]any)
	properties := challenge["properties"].(map[string]any)
	properties["type"].(map[string]any)["enum"] = types
	for _, kind := range types {
		if _, own := properties[kind]; !own {
			properties[kind] = map[string]any{"type": "object", "description": "Parameters of " + kind + " challenges; kairos lint has its driver check them."}
		}
	}
	return schema, nil
}
