// Package ops has the commands that check an installation.
package ops

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/drivers/manual"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Commands are the commands that check an installation.
func Commands(at *session.Session) []*cobra.Command {
	return []*cobra.Command{initCommand(), configCommand(at), doctorCommand(at), dbCommand(at), logsCommand(at), statusCommand(at)}
}

// initCommand is `kairos init`.
func initCommand() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "init [FILE]", Short: "Write a configuration file to start from", Args: cobra.MaximumNArgs(1),
		Long: "Writes a configuration file, kairos.yaml in this folder unless FILE names another, with what is decided first. With\n" +
			"--all it has every key with its meaning and its default, all of it in comments. A file that exists is never changed.\n" +
			"With FILE - it is printed.",
		Example: "  kairos init\n  kairos init --all /etc/kairos/kairos.yaml\n  kairos init --all -",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			sample := config.Starter
			if all {
				if sample, err = config.Sample(); err != nil {
					return err
				}
			}
			path := append(args, "kairos.yaml")[0]
			if path == "-" {
				_, err := fmt.Fprint(cmd.OutOrStdout(), sample)
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists: it stays as it is. Name another file, or compare with `kairos init --all -`", path)
			}
			if err != nil {
				return fmt.Errorf("write the configuration: %w", err)
			}
			_, err = f.WriteString(sample)
			if err = errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("write the configuration: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n  next: change it, then `kairos config check --config %s`\n", path, path)
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every key, with its meaning and its default, in comments")
	return cmd
}

func configCommand(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show and check the configuration, and print its schema", Example: "  kairos config check\n  kairos config show"}
	cmd.AddCommand(configCheck(at), configShow(at), configSchema(at))
	return cmd
}

// checked is what `kairos config check` found to be right.
type checked struct {
	Database  string `json:"database"`
	Exists    bool   `json:"database_exists"`
	Index     string `json:"index,omitempty"`
	Drivers   string `json:"drivers"`
	Embedding string `json:"embedding"`
}

// configCheck is `kairos config check`.
func configCheck(at *session.Session) *cobra.Command {
	out := new(output.Format)
	return out.AddTo(&cobra.Command{
		Use: "check", Short: "Check the configuration, the driver settings and the decision tree", Args: cobra.NoArgs,
		Long: "Reads the configuration, the settings of the drivers and the decision tree, reports every problem at once, and then\n" +
			"checks that the database and the index answer.",
		Example: "  kairos config check --config kairos.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			at.NoteUnread(cmd)
			if err := at.CheckFiles(); err != nil {
				return err
			}
			return at.Options.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				d := a.Config.Database
				c := checked{Database: d.String(), Exists: app.DatabaseExists(d), Drivers: a.Config.Drivers.Dir, Embedding: a.Config.Embedding.String()}
				if c.Exists {
					if err := errors.Join(a.Store.Check(), a.Index.Usable(ctx)); err != nil {
						return err
					}
				}
				if a.Index != nil {
					c.Index = a.Index.Feeder.Location()
				}
				return out.Print(cmd.OutOrStdout(), c, func(p *output.Printer) {
					p.Printf("ok\n  database  %s\n", c.Database)
					if !c.Exists {
						p.Printf("            which does not exist yet: %s\n", app.NoDatabase(d).Hint)
					}
					for _, row := range [][2]string{{"index", c.Index}, {"drivers", c.Drivers}, {"embedding", c.Embedding}} {
						if row[1] != "" {
							p.Printf("  %-9s %s\n", row[0], row[1])
						}
					}
				})
			})
		},
	})
}

// configShow is `kairos config show`.
func configShow(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "show", Short: "Show every setting with its value and where that comes from", Args: cobra.NoArgs,
		Long: "Shows the value that is used for each key of the configuration, and whether it is from the file, the environment, a\n" +
			"flag or the default. Settings of drivers are named without their values, which may be secret.",
		Example: "  kairos config show\n  kairos config show --config kairos.yaml -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			at.NoteUnread(cmd)
			at.LogLevel = "" // commands log less than the server does
			return output.Reply(cmd, out, func(p *output.Printer, settings []config.Setting) {
				rows := [][]string{{"KEY", "VALUE", "FROM"}}
				for _, s := range settings {
					rows = append(rows, []string{s.Key, fmt.Sprint(s.Value), s.From})
				}
				p.Table(rows)
			})(at.Settings())
		},
	}
	return out.AddTo(cmd)
}

// build is the version of this program and what it was built from.
type build struct {
	version  string
	commit   string // empty: not known
	changed  bool   // since that commit
	compiler string
	platform string
}

// Version is what `kairos --version` prints: the version, the commit it was built from
// where that is known, and the versions of MCP that it speaks.
func Version(version string) string {
	b := thisBuild(version)
	var out strings.Builder
	fmt.Fprintf(&out, "kairos %s\n", b.version)
	if b.commit != "" {
		commit := b.commit
		if b.changed {
			commit += ", changed since"
		}
		fmt.Fprintf(&out, "  commit    %s\n", commit)
	}
	fmt.Fprintf(&out, "  built by  %s for %s\n  MCP       %s\n", b.compiler, b.platform, output.List(mcpserver.Versions()))
	return out.String()
}

func thisBuild(version string) build {
	b := build{version: version, compiler: runtime.Version(), platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.commit = s.Value
		case "vcs.modified":
			b.changed = s.Value == "true"
		}
	}
	return b
}

// challengeSchema describes what the core owns of a challenge; a test compares
// it with protocol.Common.
//
//go:embed challenge.schema.json
var challengeSchema []byte

// configSchema is `kairos config schema`.
func configSchema(at *session.Session) *cobra.Command {
	of := []cobra.Completion{"config", "tree", "challenge"}
	return &cobra.Command{
		Use: "schema [config|tree|challenge]", Short: "Print a JSON Schema for editors", Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), ValidArgs: of,
		Long: `Prints the JSON Schema of the configuration file, of the decision tree, or of the challenge block of a step. That of a
challenge has the keys that all challenges have and one object for each type that a driver handles, as the descriptors of
the locked drivers describe it. kairos lint asks the driver, which may know more.`,
		Example: "  kairos config schema > kairos.schema.json\n  kairos config schema challenge > challenge.schema.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			schema := config.Schema
			switch append(args, "config")[0] {
			case "tree":
				schema = decision.Schema()
			case "challenge":
				challenges, err := schemaOfChallenges(at)
				if err != nil {
					return err
				}
				return output.PrintJSON(cmd.OutOrStdout(), challenges)
			}
			_, err := cmd.OutOrStdout().Write(schema)
			return err
		},
	}
}

// schemaOfChallenges is the schema of the types that the tree and the locked drivers know.
func schemaOfChallenges(at *session.Session) (map[string]any, error) {
	tree, err := at.Tree("")
	if err != nil {
		return nil, err
	}
	c, err := at.Load()
	if err != nil {
		return nil, err
	}
	lock, err := c.ReadLock()
	if err != nil {
		return nil, err
	}
	return schemaOf(tree.Types(), lock.Descriptors())
}

// schemaOf is the schema of challenges of the types, whose parameters the drivers declare.
func schemaOf(types []string, all []driver.Descriptor) (map[string]any, error) {
	var schema map[string]any
	if err := json.Unmarshal(challengeSchema, &schema); err != nil {
		return nil, fmt.Errorf("read the schema of challenges: %w", err)
	}
	challenge := schema["properties"].(map[string]any)["challenge"].(map[string]any)
	properties := challenge["properties"].(map[string]any)
	properties["type"].(map[string]any)["enum"] = types
	for _, kind := range types {
		properties[kind] = map[string]any{"type": "object", "description": "Parameters of " + kind + " challenges; kairos lint has its driver check them."}
		handles := func(d driver.Descriptor) bool {
			return d.Role == driver.RoleChallenge && slices.Contains(d.Handles, kind)
		}
		if i := slices.IndexFunc(all, handles); i >= 0 && len(all[i].ParamsSchema) > 0 {
			properties[kind] = manual.Params(all[i].ParamsSchema)
		}
	}
	return schema, nil
}
