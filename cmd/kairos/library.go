package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
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
	out := new(format)
	cmd := &cobra.Command{
		Use: "search WORDS...", Short: "Find protocols", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.with(cmd.Context(), func(ctx context.Context, a *app) error {
				reply, err := a.engine.Search(ctx, localCaller(), engine.SearchInput{Query: strings.Join(args, " ")})
				if err != nil {
					return err
				}
				return out.print(cmd.OutOrStdout(), reply, func(p *printer) { p.choices(reply) })
			})
		},
	}
	out.addTo(cmd, formatJSON)
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

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
