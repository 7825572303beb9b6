package library

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// changes are the flags of `kairos update`.
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
label, text or challenge of all. kairos dump URI --output md prints the document of a step. A title or a file names a
protocol of one step; kairos mint --force replaces a whole protocol.`,
		Example: `  kairos update kairos://mem/... --file step.md
  kairos update URI1 URI2 --files one.md two.md
  kairos update URI --updates '{"label": "Look at the logs"}'`,
		Args: cobra.MinimumNArgs(1), Annotations: session.AsksServers, ValidArgsFunction: at.CompleteURIs,
		RunE: func(cmd *cobra.Command, args []string) error {
			batches, total, err := c.batches(cmd, args)
			if err != nil {
				return err
			}
			return at.WithTools(cmd.Context(), func(ctx context.Context, t api.Transport) error {
				if err := referAll(ctx, t, batches); err != nil {
					return err
				}
				reply, err := updateAll(ctx, cmd, t, batches, total)
				if len(reply.Results) == 0 {
					return err
				}
				err = errors.Join(out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) { printItems(p, reply.Results) }), err)
				return errors.Join(err, failedItems(strict, reply.TotalFailed))
			})
		},
	}
	out.AddToTool(cmd, output.FormatJSON)
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

// updateBatch is how many steps with a document of their own go into one call.
const updateBatch = 20

// batches makes the calls: one, except that many documents are sent a few at a
// time. Behind --files any argument that names no step is a file, because its
// files may stand in a row.
func (c changes) batches(cmd *cobra.Command, args []string) (calls []api.UpdateRequest, total int, err error) {
	given := 0
	for _, name := range []string{"file", "files", "updates"} {
		if cmd.Flags().Changed(name) {
			given++
		}
	}
	if given != 1 {
		return nil, 0, errors.New("say what to change with one of --file, --files and --updates")
	}
	if len(c.files) > 0 {
		return c.each(cmd.Context(), args)
	}
	in := api.UpdateRequest{URIs: args}
	if c.file == "" {
		in.Updates, err = flags.JSONObject("--updates", c.updates)
		return []api.UpdateRequest{in}, len(args), err
	}
	b, err := documents.Document{Name: c.file}.Read(cmd.Context(), cmd.InOrStdin())
	if err != nil {
		return nil, 0, fmt.Errorf("read the document: %w", err)
	}
	for range in.URIs {
		in.Documents = append(in.Documents, string(b))
	}
	return []api.UpdateRequest{in}, len(args), nil
}

func (c changes) each(ctx context.Context, args []string) (calls []api.UpdateRequest, total int, err error) {
	var uris []string
	files := c.files
	for _, arg := range args {
		if uri := reference.StepURI(arg); reference.NamesStep(uri) || strings.Contains(arg, "://") {
			uris = append(uris, uri)
			continue
		}
		files = append(files, arg)
	}
	if len(uris) != len(files) {
		return nil, 0, fmt.Errorf("--files gives %s for %s: it must be one for each", output.Count(len(files), "file"), output.Count(len(uris), "URI"))
	}
	for i, file := range files {
		b, err := documents.Document{Name: file}.Read(ctx, nil)
		if err != nil {
			return nil, 0, fmt.Errorf("read the document: %w", err)
		}
		if i%updateBatch == 0 {
			calls = append(calls, api.UpdateRequest{})
		}
		in := &calls[len(calls)-1]
		in.URIs, in.Documents = append(in.URIs, uris[i]), append(in.Documents, string(b))
	}
	return calls, len(uris), nil
}

// referAll replaces what the arguments name by the URIs of steps, before
// anything is changed.
func referAll(ctx context.Context, t api.Transport, calls []api.UpdateRequest) error {
	for _, in := range calls {
		for i, arg := range in.URIs {
			named, err := reference.Find(ctx, t, arg)
			if err != nil {
				return err
			}
			if in.URIs[i] = named.URI; !named.Whole {
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
	}
	return nil
}

// updateAll makes the calls one after the other, into one reply.
func updateAll(ctx context.Context, cmd *cobra.Command, t api.Transport, calls []api.UpdateRequest, total int) (all api.UpdateReply, err error) {
	p := output.NewProgress(cmd.ErrOrStderr(), total, "updating")
	defer p.End()
	for _, in := range calls {
		reply, err := api.Update.Call(ctx, t, in)
		if err != nil && len(all.Results) > 0 {
			return all, fmt.Errorf("%w\n  %d of %d steps are done, the rest is not", err, len(all.Results), total)
		}
		if err != nil {
			return all, err
		}
		all.Results = append(all.Results, reply.Results...)
		all.TotalUpdated += reply.TotalUpdated
		all.TotalFailed += reply.TotalFailed
		p.Add(len(reply.Results))
	}
	return all, nil
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
kept: kairos restore brings them back.`,
		Example:     "  kairos delete 'Release a version'\n  kairos delete kairos://mem/...",
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
	out.AddToTool(cmd, output.FormatJSON)
	flags.Strict(cmd, &strict)
	return cmd
}
