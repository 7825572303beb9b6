package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/fault"
)

func mintCommand(at *source) *cobra.Command {
	var in engine.MintInput
	cmd := &cobra.Command{
		Use: "mint FILE", Short: "Store the protocols of a Markdown file", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := readDocument(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			in.Document = string(b)
			return at.with(cmd.Context(), func(ctx context.Context, a *app) error {
				reply, err := a.engine.Mint(ctx, localCaller(), in)
				if fault.CodeOf(err) == fault.DuplicateChain {
					return fmt.Errorf("%w\n  here: add --force to replace it", err)
				}
				if err != nil {
					return err
				}
				return printJSON(cmd.OutOrStdout(), reply)
			})
		},
	}
	cmd.Flags().BoolVar(&in.Force, "force", false, "replace a protocol of the same title")
	cmd.Flags().StringVar(&in.ModelID, "model", "kairos-cli", "who wrote the protocol")
	return cmd
}

func readDocument(stdin io.Reader, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(stdin)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the protocol: %w", err)
	}
	return b, nil
}

func searchCommand(at *source) *cobra.Command {
	out, explain := new(format), false
	cmd := &cobra.Command{
		Use: "search WORDS...", Short: "Find protocols", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.with(cmd.Context(), func(ctx context.Context, a *app) error {
				in := engine.SearchInput{Query: strings.Join(args, " ")}
				if explain {
					reply, err := a.engine.ExplainSearch(ctx, localCaller(), in)
					if err != nil {
						return err
					}
					return out.print(cmd.OutOrStdout(), reply, func(p *printer) { p.explained(reply) })
				}
				reply, err := a.engine.Search(ctx, localCaller(), in)
				if err != nil {
					return err
				}
				return out.print(cmd.OutOrStdout(), reply, func(p *printer) { p.choices(reply) })
			})
		},
	}
	out.addTo(cmd, formatJSON)
	cmd.Flags().BoolVar(&explain, "explain", false, "say for each match which words were found in which field, and by which ranker")
	return cmd
}

func (p *printer) choices(reply engine.SearchReply) {
	rows := [][]string{{"SCORE", "ROLE", "PROTOCOL", "URI"}}
	for _, c := range reply.Choices {
		score, title := "-", c.Label
		if c.Score != nil {
			score = fmt.Sprintf("%.3f", *c.Score)
		}
		if c.ChainLabel != nil {
			title = *c.ChainLabel
		}
		rows = append(rows, []string{score, c.Role, title, c.URI})
	}
	p.table(rows)
}

// explained prints a table for each match: what was asked, what was found
// where, and how much of the score it is.
func (p *printer) explained(reply engine.ExplainedSearch) {
	if len(reply.Explained) == 0 {
		p.table([][]string{{reply.Message}})
	}
	for i, e := range reply.Explained {
		if i > 0 {
			p.table([][]string{{""}})
		}
		p.table([][]string{{fmt.Sprintf("%.3f  %s  %s", e.Score, e.ChainLabel, e.URI)}})
		rows := [][]string{{"FIELD", "RANKER", "STEP", "ASKED", "FOUND", "SCORE"}}
		for _, m := range e.Why {
			rows = append(rows, []string{
				cmp.Or(m.Field, "-"), m.Ranker, strconv.Itoa(m.Step + 1), cmp.Or(m.Asked, "-"), cmp.Or(m.Found, "-"), fmt.Sprintf("%.3f", m.Score),
			})
		}
		p.table(rows)
	}
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
