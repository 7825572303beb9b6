package ops

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
)

// build is the version of this program and what it was built from.
type build struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit,omitempty"`
	Changed  bool     `json:"changed,omitempty"` // since that commit
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	MCP      []string `json:"mcp_versions"`
}

// versionCommand is `kairos version`.
func versionCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Long:    "Prints the version, the commit it was built from where that is known, and the versions of MCP that it speaks.",
		Example: "  kairos version\n  kairos version -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild(at.Version)
			return out.Print(cmd.OutOrStdout(), b, func(p *output.Printer) {
				p.Printf("kairos %s\n", b.Version)
				if b.Commit != "" {
					commit := b.Commit
					if b.Changed {
						commit += ", changed since"
					}
					p.Printf("  commit    %s\n", commit)
				}
				p.Printf("  built by  %s for %s\n  MCP       %s\n", b.Go, b.Platform, output.List(b.MCP))
			})
		},
	}
	out.AddTo(cmd)
	return cmd
}

func thisBuild(version string) build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, MCP: mcpserver.Versions()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Changed = s.Value == "true"
		}
	}
	return b
}
