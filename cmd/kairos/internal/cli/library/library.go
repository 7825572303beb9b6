// Package library has the commands that keep protocols: search, mint, change,
// export and import them, and their history.
package library

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/documents"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/reference"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/server/operations"
)

func searchCommand(at *session.Session) *cobra.Command {
	out, explain := new(output.Format), false
	var in api.SearchRequest
	cmd := &cobra.Command{
		Use: "search WORDS...", Short: "Search protocols", Args: cobra.MinimumNArgs(1), Annotations: session.AsksServers,
		Example: "  kairos search restore a backup\n  kairos search --explain restore a backup",
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Query = strings.Join(args, " ")
			if explain {
				return explainSearch(cmd, at, out, in)
			}
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				return output.Reply(cmd, out, func(p *output.Printer, r api.SearchReply) { printChoices(ctx, p, t, r) })(api.Search.Call(ctx, t, in))
			})
		},
	}
	out.AddToTool(cmd)
	cmd.Flags().StringVar(&in.Space, "space", "", "only in this space, and among the built-in protocols")
	cmd.Flags().StringArrayVar(&in.Queries, "or", nil, "the same in other words; can be repeated, up to 5 times")
	cmd.Flags().IntVar(&in.Limit, "limit", 0, "list at most this many matches, 1 to 10 (default 5; 3 while no match is sure)")
	cmd.Flags().BoolVar(&explain, "explain", false, "say for each match and what is nearest how words and meaning make its score")
	return cmd
}

// explainSearch is for the operator of the database, so no server offers it.
func explainSearch(cmd *cobra.Command, at *session.Session, out *output.Format, in api.SearchRequest) error {
	if at.Server() != "" {
		return errors.New("--explain looks into the local database: use it where the server runs, without --url and " + session.ServerEnv)
	}
	return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
		return output.Reply(cmd, out, printExplained)(a.Engine.Library.ExplainSearch(ctx, a.Caller(), in))
	})
}

// worthOf says what the steps of the protocol will be worth at least; empty: it cannot be
// read any more.
func worthOf(ctx context.Context, t api.Transport, uri string) string {
	dumped, err := api.Dump.Call(ctx, t, api.DumpRequest{URI: uri, Protocol: true})
	if err != nil {
		return ""
	}
	return dumped.Worth
}

func printChoices(ctx context.Context, p *output.Printer, t api.Transport, reply api.SearchReply) {
	rows := [][]string{{"SCORE", "ROLE", "PROTOCOL", "WORTH", "URI"}}
	for _, c := range reply.Choices {
		score, title, worth := "-", c.Label, ""
		if c.Score != nil {
			score = fmt.Sprintf("%.3f", *c.Score)
		}
		if c.ChainLabel != nil {
			title = *c.ChainLabel
		}
		if c.Role == "match" {
			worth = worthOf(ctx, t, c.URI)
		}
		rows = append(rows, []string{score, c.Role, title, cmp.Or(worth, "-"), p.ID(c.URI)})
	}
	for _, n := range reply.Nearest {
		rows = append(rows, []string{"-", "nearest", n.Title, "-", p.ID(n.URI)})
	}
	p.Printf("%s\n\n", output.Lines(output.Commands(reply.Message)))
	p.Rows(rows)
}

// printExplained prints for each protocol what its score is made of, and a table of its
// words: what was asked, what was found, and how much of the share of words it is.
func printExplained(p *output.Printer, reply library.ExplainedSearch) {
	if len(reply.Explained) == 0 {
		p.Printf("%s\n", output.Lines(reply.Message))
	}
	for i, e := range reply.Explained {
		if i > 0 {
			p.Printf("\n")
		}
		p.Printf("%.3f %s `%s`\n", e.Score, e.ChainLabel, e.URI)
		p.Printf("words %.3f, meaning %.3f, name %s\n", e.Words, e.Meaning, cmp.Or(e.Name, "-"))
		if len(e.Matches) == 0 {
			continue
		}
		p.Printf("\n")
		rows := [][]string{{"RANKER", "ASKED", "FOUND", "SCORE"}}
		for _, m := range e.Matches {
			rows = append(rows, []string{m.Ranker, m.Asked, m.Found, fmt.Sprintf("%.3f", m.Score)})
		}
		p.Rows(rows)
	}
}

func mintCommand(at *session.Session) *cobra.Command {
	var in api.MintRequest
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "mint FILE...", Short: "Store the protocols of Markdown files", Args: cobra.MinimumNArgs(1), Annotations: session.AsksServers,
		Long: `Stores the protocols of Markdown files, - for standard input, and prints what was stored. A refused file does
not stop the others.`,
		Example: "  kairos mint release.md\n  kairos mint --force release.md   # replace the stored version",
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.Creating().WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				reply, err := mintFiles(ctx, cmd, t, in, args)
				if len(reply.Items) == 0 {
					return err
				}
				return errors.Join(out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) { printMinted(p, reply) }), err)
			})
		},
	}
	out.AddToTool(cmd)
	cmd.Flags().BoolVar(&in.Force, "force", false, "replace a protocol of the same title")
	cmd.Flags().StringVar(&in.ModelID, "model", "kairos-cli", "who wrote the protocol")
	cmd.Flags().StringVar(&in.Space, "space", "", "store in this space instead of your own")
	return cmd
}

// mintFiles mints one file after the other into one reply. Of several that are
// refused each is named.
func mintFiles(ctx context.Context, cmd *cobra.Command, t api.Transport, in api.MintRequest, files []string) (all api.MintReply, err error) {
	p := output.NewProgress(cmd.ErrOrStderr(), len(files), "minting")
	defer p.End()
	var refused []error
	for _, file := range files {
		reply, err := mintFile(ctx, cmd.InOrStdin(), t, in, file)
		p.Add(1)
		switch {
		case len(files) == 1 || ctx.Err() != nil:
			return reply, err
		case err != nil:
			refused = append(refused, fmt.Errorf("%s: %s", file, output.Message(err)))
			continue
		}
		for _, w := range reply.Warnings {
			w.Message = file + ": " + w.Message
			all.Warnings = append(all.Warnings, w)
		}
		all.Status, all.Items, all.Message = reply.Status, append(all.Items, reply.Items...), cmp.Or(all.Message, reply.Message)
	}
	if len(refused) > 0 {
		refused = append(refused, fmt.Errorf("%s not stored", output.Count(len(refused), "file")))
	}
	return all, errors.Join(refused...)
}

func mintFile(ctx context.Context, stdin io.Reader, t api.Transport, in api.MintRequest, file string) (api.MintReply, error) {
	b, err := documents.Document{Name: file}.Read(ctx, stdin)
	if err != nil {
		return api.MintReply{}, fmt.Errorf("read the protocol: %w", err)
	}
	titled := protocol.TitleFile(b, documents.Document{Name: file}.File())
	in.Document = string(titled.Document)
	reply, err := api.Mint.Call(ctx, t, in)
	for i := range reply.Warnings {
		reply.Warnings[i].Line = titled.Line(reply.Warnings[i].Line)
	}
	if note := titled.Finding(); note != nil && err == nil {
		reply.Warnings = append([]api.Diagnostic{{Severity: note.Severity, Line: note.Line, Column: note.Column, Message: note.Message}}, reply.Warnings...)
	}
	return reply, inFile(titled, err)
}

// inFile is an error about a document with the lines of the file.
func inFile(titled protocol.Titled, err error) error {
	var refused *fault.Error
	if titled.Added == 0 || !errors.As(err, &refused) {
		return err
	}
	var found []protocol.Diagnostic
	if b, bad := json.Marshal(refused.Details["diagnostics"]); bad != nil || json.Unmarshal(b, &found) != nil {
		return err
	}
	told := *refused
	for _, d := range found {
		was := d.String()
		d.Line = titled.Line(d.Line)
		told.Message = strings.ReplaceAll(told.Message, was, d.String())
	}
	return &told
}

func printMinted(p *output.Printer, reply api.MintReply) {
	if reply.Message != "" {
		p.Printf("%s\n\n", output.Lines(output.Commands(reply.Message)))
	}
	rows := [][]string{{"STEP", "URI"}}
	for _, item := range reply.Items {
		rows = append(rows, []string{item.Label, item.URI})
	}
	p.Rows(rows)
	for _, w := range reply.Warnings {
		p.Printf("\n%s\n", output.Lines(output.Commands(diagnostic(w).String())))
	}
}

func diagnostic(w api.Diagnostic) protocol.Diagnostic {
	return protocol.Diagnostic{Severity: w.Severity, Line: w.Line, Column: w.Column, Step: w.Step, Pointer: w.Pointer, Message: w.Message}
}

func dumpCommand(at *session.Session) *cobra.Command {
	out, whole := new(output.Format), false
	cmd := &cobra.Command{
		Use: "dump URI|TITLE|FILE", Short: "Show a step or a protocol as it is stored", Args: cobra.ExactArgs(1), Annotations: session.AsksServers,
		Long: `Shows a step by its URI, or with --protocol its whole protocol. A title, or a file that holds the protocol, means the
whole protocol. --output md prints the document that kairos mint and kairos protocols update take.`,
		Example:           "  kairos protocols dump 'Release a version' -o md\n  kairos protocols dump release.md -o md   # as it is stored now",
		ValidArgsFunction: at.CompleteURI,
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				named, err := reference.Find(ctx, t, args[0])
				if err != nil {
					return err
				}
				return output.Reply(cmd, out, func(p *output.Printer, r api.DumpReply) { p.Document(r.Document) })(
					api.Dump.Call(ctx, t, api.DumpRequest{URI: named.URI, Protocol: whole || named.Whole}))
			})
		},
	}
	out.AddToTool(cmd)
	cmd.Flags().BoolVar(&whole, "protocol", false, "the whole protocol instead of the step")
	return cmd
}

// spacesCommand is `kairos spaces`.
func spacesCommand(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "spaces", Short: "List and create spaces, which hold protocols",
		Example: "  kairos spaces list\n  kairos spaces create production",
	}
	cmd.AddCommand(spacesList(at), spacesCreate(at))
	return cmd
}

// spacesCreate is `kairos spaces create`.
func spacesCreate(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a space", Args: cobra.ExactArgs(1), Annotations: session.AsksServers,
		Long: "Creates a space for protocols. kairos mint, import and search take its name with --space, and rules and conditions know it\n" +
			"by its name. A space that is there stays as it is.",
		Example: "  kairos spaces create production",
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.Creating().WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				return output.Reply(cmd, out, func(p *output.Printer, r operations.CreateSpaceReply) {
					if !r.Created {
						p.Printf("space %s was there already\n", r.Name)
						return
					}
					p.Printf("created space %s\n  next: `kairos mint FILE --space %s`\n", r.Name, r.Name)
				})(operations.CreateSpace.Call(ctx, t, operations.CreateSpaceRequest{Name: args[0]}))
			})
		},
	}
	return out.AddTo(cmd)
}

// spacesList is `kairos spaces list`.
func spacesList(at *session.Session) *cobra.Command {
	out, titles := new(output.Format), false
	cmd := &cobra.Command{
		Use: "list", Short: "List spaces and how many protocols they hold", Args: cobra.NoArgs, Annotations: session.AsksServers,
		Example: "  kairos spaces list\n  kairos spaces list --titles -o md",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				return output.Reply(cmd, out, func(p *output.Printer, r api.SpacesReply) { printSpaces(p, r, titles) })(reference.Spaces(ctx, t, titles))
			})
		},
	}
	out.AddToTool(cmd)
	cmd.Flags().BoolVar(&titles, "titles", false, "list the protocols, too")
	return cmd
}

func printSpaces(p *output.Printer, reply api.SpacesReply, titles bool) {
	if !titles {
		rows := [][]string{{"SPACE", "PROTOCOLS", "ID"}}
		for _, s := range reply.Spaces {
			rows = append(rows, []string{s.Name, strconv.Itoa(s.ChainCount), s.SpaceID})
		}
		p.Rows(rows)
		return
	}
	rows := [][]string{{"SPACE", "PROTOCOL", "STEPS", "URI"}}
	for _, s := range reply.Spaces {
		for _, c := range s.Chains {
			rows = append(rows, []string{s.Name, c.Title, strconv.Itoa(c.StepCount), p.ID(c.URI)})
		}
	}
	p.Rows(rows)
}

// Commands are the commands that keep protocols.
func Commands(at *session.Session) []*cobra.Command {
	return []*cobra.Command{lintCommand(at), mintCommand(at), searchCommand(at), importCommand(at), protocolsCommand(at), spacesCommand(at)}
}

// protocolsCommand is `kairos protocols`.
func protocolsCommand(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "protocols", Short: "List, show, change, restore and export stored protocols",
		Example: "  kairos protocols list\n  kairos protocols dump 'Release a version' -o md\n  kairos protocols diff 'Release a version'",
	}
	cmd.AddCommand(listCommand(at), dumpCommand(at), historyCommand(at), diffCommand(at), restoreCommand(at), exportCommand(at))
	cmd.AddCommand(Changes(at)...)
	return cmd
}

// Changes are the commands of `kairos protocols` that change what is stored, as the tools
// of agents do.
func Changes(at *session.Session) []*cobra.Command {
	return []*cobra.Command{updateCommand(at), deleteCommand(at)}
}

// listed is a protocol of `kairos protocols list`.
type listed struct {
	Title string `json:"title"`
	Worth string `json:"worth"` // what a run of it will be worth at least
	Steps int    `json:"steps"`
	Space string `json:"space"`
	URI   string `json:"uri"` // of the first step
}

// listCommand is `kairos protocols list`.
func listCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "list", Short: "List protocols", Args: cobra.NoArgs, Annotations: session.AsksServers,
		Long: "Lists the protocols that you can run and what a run of each will be worth at least, those of your own space first. A\n" +
			"terminal shows the end of each URI, which commands take as well.",
		Example: "  kairos protocols list\n  kairos protocols list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				reply, err := reference.Spaces(ctx, t, true)
				if err != nil {
					return err
				}
				all := []listed{}
				for _, s := range reply.Spaces {
					for _, c := range s.Chains {
						all = append(all, listed{c.Title, worthOf(ctx, t, c.URI), c.StepCount, s.Name, c.URI})
					}
				}
				return out.Print(cmd.OutOrStdout(), all, func(p *output.Printer) { printProtocols(p, all) })
			})
		},
	}
	return out.AddTo(cmd)
}

func printProtocols(p *output.Printer, all []listed) {
	rows := [][]string{{"PROTOCOL", "WORTH", "STEPS", "SPACE", "URI"}}
	for _, l := range all {
		rows = append(rows, []string{l.Title, cmp.Or(l.Worth, "-"), strconv.Itoa(l.Steps), l.Space, p.ID(l.URI)})
	}
	p.Rows(rows)
}
