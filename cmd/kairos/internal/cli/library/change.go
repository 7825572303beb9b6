package library

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/documents"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/flags"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/reference"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

// changes are the flags of `kairos protocols update`.
type changes struct {
	file    string
	files   []string
	updates string
}

func updateCommand(at *session.Session) *cobra.Command {
	var c changes
	out, strict := new(output.Format), output.IsTerminal(os.Stdout)
	cmd := &cobra.Command{
		Use:   "update URI|TITLE... (--file FILE | --files FILE... | --updates JSON)",
		Short: "Update steps",
		Long: `Updates steps: --file gives all of them the same document, --files one to each in order, and --updates changes
label, text or challenge of all. kairos protocols dump URI --output md prints the document of a step. A title or a file names a
protocol of one step; kairos mint --force replaces a whole protocol.`,
		Example: `  kairos protocols update kairos://mem/... --file step.md
  kairos protocols update URI1 URI2 --files one.md two.md
  kairos protocols update URI --updates '{"label": "Look at the logs"}'`,
		Args: cobra.MinimumNArgs(1), Annotations: session.AsksServers, ValidArgsFunction: at.CompleteURIs,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := c.request(cmd, args)
			if err != nil {
				return err
			}
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				if err := referAll(ctx, t, in.URIs); err != nil {
					return err
				}
				reply, err := output.While(cmd.ErrOrStderr(), "updating", func() (api.UpdateReply, error) { return api.Update.Call(ctx, t, in) })
				if err != nil {
					return err
				}
				err = out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) { printItems(p, reply.Results) })
				return errors.Join(err, failedItems(strict, reply.TotalFailed))
			})
		},
	}
	out.AddToTool(cmd)
	cmd.Flags().StringVar(&c.file, "file", "", "the new document of every step")
	cmd.Flags().StringArrayVar(&c.files, "files", nil, "the new documents, one for each URI")
	cmd.Flags().StringVar(&c.updates, "updates", "", "JSON object with label, text or challenge")
	flags.Strict(cmd, &strict)
	return cmd
}

func failedItems(strict bool, failed int) error {
	if !strict || failed == 0 {
		return nil
	}
	return fmt.Errorf("%s failed", output.Count(failed, "step"))
}

// request is the call that the flags describe. Behind --files any argument that names no
// step is a file, because its files may stand in a row.
func (c changes) request(cmd *cobra.Command, args []string) (in api.UpdateRequest, err error) {
	given := 0
	for _, name := range []string{"file", "files", "updates"} {
		if cmd.Flags().Changed(name) {
			given++
		}
	}
	if given != 1 {
		return in, errors.New("say what to change with one of --file, --files and --updates")
	}
	if in.URIs = args; c.file == "" && len(c.files) == 0 {
		in.Updates, err = flags.JSONObject("--updates", c.updates)
		return in, err
	}
	files := slices.Repeat([]string{c.file}, len(args))
	if len(c.files) > 0 {
		if in.URIs, files, err = c.pairs(args); err != nil {
			return in, err
		}
	}
	for i, file := range files {
		if i > 0 && file == files[i-1] {
			in.Documents = append(in.Documents, in.Documents[i-1]) // standard input can be read once
			continue
		}
		b, err := documents.Document{Name: file}.Read(cmd.Context(), cmd.InOrStdin())
		if err != nil {
			return in, fmt.Errorf("read the document: %w", err)
		}
		in.Documents = append(in.Documents, string(b))
	}
	return in, nil
}

// pairs are the steps and their files.
func (c changes) pairs(args []string) (uris, files []string, err error) {
	files = c.files
	for _, arg := range args {
		if uri := reference.StepURI(arg); reference.NamesStep(uri) || strings.Contains(arg, "://") {
			uris = append(uris, uri)
			continue
		}
		files = append(files, arg)
	}
	if len(uris) != len(files) {
		err = fmt.Errorf("--files gives %s for %s: it must be one for each", output.Count(len(files), "file"), output.Count(len(uris), "URI"))
	}
	return uris, files, err
}

// referAll replaces what the arguments name by the URIs of steps, before
// anything is changed.
func referAll(ctx context.Context, t api.Transport, args []string) error {
	for i, arg := range args {
		named, err := reference.Find(ctx, t, arg)
		if err != nil {
			return err
		}
		if args[i] = named.URI; !named.Whole {
			continue
		}
		protocol, err := api.Dump.Call(ctx, t, api.DumpRequest{URI: named.URI, Protocol: true})
		if err != nil {
			return err
		}
		if protocol.StepCount != 1 {
			return fault.New(fault.InvalidArgument, "%q has %s, and update changes one", arg, output.Count(protocol.StepCount, "step")).
				WithHint("name the step by its URI, or replace the whole protocol with `kairos mint --force FILE`")
		}
	}
	return nil
}

func printItems[Result api.UpdateResult | api.DeleteResult](p *output.Printer, results []Result) {
	rows := [][]string{{"URI", "STATUS", "MESSAGE"}}
	for _, result := range results {
		r := api.UpdateResult(result)
		rows = append(rows, []string{r.URI, r.Status, output.Commands(r.Message)})
	}
	p.Rows(rows)
}

func deleteCommand(at *session.Session) *cobra.Command {
	out, strict := new(output.Format), output.IsTerminal(os.Stdout)
	cmd := &cobra.Command{
		Use: "delete URI|TITLE|FILE...", Short: "Delete steps and protocols", Args: cobra.MinimumNArgs(1),
		Long: `Deletes steps by their URIs. A title, a file or the URI of the first step deletes the whole protocol. Older versions are
kept: kairos protocols restore brings them back.`,
		Example:     "  kairos protocols delete 'Release a version'\n  kairos protocols delete kairos://mem/...",
		Annotations: session.AsksServers, ValidArgsFunction: at.CompleteURIs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				uris, err := reference.FindAll(ctx, t, args)
				if err != nil {
					return err
				}
				reply, err := api.Delete.Call(ctx, t, api.DeleteRequest{URIs: uris})
				if err != nil {
					return err
				}
				err = out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) { printItems(p, reply.Results) })
				return errors.Join(err, failedItems(strict, reply.TotalFailed))
			})
		},
	}
	out.AddToTool(cmd)
	flags.Strict(cmd, &strict)
	return cmd
}
