package library

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/reference"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

func historyCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use:     "history REF",
		Short:   "List the versions of a protocol",
		Long:    "Lists the versions of a protocol, newest first, also of a deleted one. " + refHelp,
		Example: "  kairos protocols history 'Release a version'",
		Args:    cobra.ExactArgs(1), Annotations: session.AsksServers, ValidArgsFunction: at.CompleteURI,
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				title, err := reference.Kept(ctx, t, args[0])
				if err != nil {
					return err
				}
				return output.Reply(cmd, out, printHistory)(operations.ProtocolHistory.Call(ctx, t, operations.ProtocolRequest{Protocol: title}))
			})
		},
	}
	return out.AddTo(cmd)
}

const refHelp = "REF is the URI or UUID of a step, the end of it,\nthe id of a protocol, its exact title, or a file that holds it."

func printHistory(p *output.Printer, r library.HistoryReply) {
	p.Printf("%s (%s)\n", r.Title, r.ChainID)
	rows := [][]string{{"REVISION", "SAVED", "STEPS", "BY", "TITLE"}}
	for _, v := range r.Versions {
		steps, title := strconv.Itoa(v.StepCount), v.Title
		if v.Deleted {
			steps, title = "-", "(deleted)"
		}
		rows = append(rows, []string{strconv.FormatInt(v.Revision, 10), output.Moment(v.SavedAt), steps, v.ModelID, title})
	}
	p.Table(rows)
}

// diffReport is what `kairos protocols diff` prints.
type diffReport struct {
	ChainID string `json:"chain_id"`
	From    int64  `json:"from"`
	To      int64  `json:"to"`
	Diff    string `json:"diff"` // unified; empty: the same
}

func diffCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use:   "diff REF [A [B]]",
		Short: "Show what changed between two versions of a protocol",
		Long: `Shows what changed from revision A to B of a protocol, as its documents differ. Without B it is the newest one,
without A the one before B. ` + refHelp,
		Example: "  kairos protocols diff 'Release a version'\n  kairos protocols diff release.md 3 5",
		Args:    cobra.RangeArgs(1, 3), Annotations: session.AsksServers, ValidArgsFunction: at.CompleteURI,
		RunE: func(cmd *cobra.Command, args []string) error {
			asked, err := revisions(args[1:])
			if err != nil {
				return err
			}
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				title, err := reference.Kept(ctx, t, args[0])
				if err != nil {
					return err
				}
				from, to, err := versionsToCompare(ctx, t, title, asked)
				if err != nil {
					return err
				}
				r := diffReport{ChainID: to.ChainID, From: from.Revision, To: to.Revision}
				r.Diff = protocol.Changes(fmt.Sprintf("revision %d", from.Revision), fmt.Sprintf("revision %d", to.Revision), from.Document, to.Document)
				return out.Print(cmd.OutOrStdout(), r, func(p *output.Printer) { printDiff(p, r.Diff) })
			})
		},
	}
	return out.AddTo(cmd)
}

// revisions reads the revisions of the arguments.
func revisions(args []string) ([]int64, error) {
	var out []int64
	for _, arg := range args {
		n, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a revision; kairos protocols history lists them", arg)
		}
		out = append(out, n)
	}
	return out, nil
}

// versionsToCompare are the two that were asked for, else the newest ones.
func versionsToCompare(ctx context.Context, t api.Transport, ref string, asked []int64) (from, to library.VersionReply, err error) {
	asked = append(asked, 0, 0)[:2]
	if to, err = versionOf(ctx, t, ref, asked[1]); err != nil {
		return from, to, err
	}
	if asked[0] == 0 {
		if asked[0], err = revisionBefore(ctx, t, ref, to.Revision); err != nil {
			return from, to, err
		}
	}
	from, err = versionOf(ctx, t, ref, asked[0])
	return from, to, err
}

func versionOf(ctx context.Context, t api.Transport, ref string, revision int64) (library.VersionReply, error) {
	return operations.ProtocolVersion.Call(ctx, t, revisionOf(ref, revision))
}

func revisionOf(ref string, revision int64) operations.RevisionRequest {
	return operations.RevisionRequest{ProtocolRequest: operations.ProtocolRequest{Protocol: ref}, Revision: revision}
}

func revisionBefore(ctx context.Context, t api.Transport, ref string, revision int64) (int64, error) {
	h, err := operations.ProtocolHistory.Call(ctx, t, operations.ProtocolRequest{Protocol: ref})
	if err != nil {
		return 0, err
	}
	for _, v := range h.Versions {
		if v.Revision < revision && !v.Deleted {
			return v.Revision, nil
		}
	}
	return 0, fmt.Errorf("%q has no version before revision %d", h.Title, revision)
}

// printDiff prints a unified diff, coloured at a terminal.
func printDiff(p *output.Printer, unified string) {
	if unified == "" {
		p.Printf("no difference\n")
		return
	}
	colours := map[byte]string{'+': "\x1b[32m", '-': "\x1b[31m", '@': "\x1b[36m"}
	if !output.IsTerminal(p.W) {
		p.Verbatim(unified)
		return
	}
	for line := range strings.Lines(plain.Text(unified)) {
		if colour, ok := colours[line[0]]; ok {
			line = colour + strings.TrimSuffix(line, "\n") + "\x1b[0m\n"
		}
		if p.Err == nil {
			_, p.Err = io.WriteString(p.W, line)
		}
	}
}

func restoreCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use:   "restore REF [REVISION]",
		Short: "Restore an old version of a protocol",
		Long: `Stores an old version of a protocol as the newest one; without REVISION the one before the newest, and of a deleted
protocol the last one. ` + refHelp,
		Example: "  kairos protocols restore 'Release a version'\n  kairos protocols restore 'Release a version' 3",
		Args:    cobra.RangeArgs(1, 2), Annotations: session.AsksServers, ValidArgsFunction: at.CompleteURI,
		RunE: func(cmd *cobra.Command, args []string) error {
			asked, err := revisions(args[1:])
			if err != nil {
				return err
			}
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				title, err := reference.Kept(ctx, t, args[0])
				if err != nil {
					return err
				}
				return output.Reply(cmd, out, printRestored)(operations.RestoreProtocol.Call(ctx, t, revisionOf(title, append(asked, 0)[0])))
			})
		},
	}
	return out.AddTo(cmd)
}

func printRestored(p *output.Printer, r library.RestoreReply) {
	if !r.Changed {
		p.Printf("%s is stored as it was at revision %d already\n", r.Title, r.Restored)
		return
	}
	p.Printf("%s is stored again as it was at revision %d\n", r.Title, r.Restored)
	for _, w := range r.Warnings {
		p.Printf("%s\n", w)
	}
}
