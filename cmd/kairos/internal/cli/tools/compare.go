package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ask"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// difference is in what a server is not as it was accepted.
type difference struct {
	launch  bool   // it is started in another way
	was, is string // how it was started and is now; was is empty where that is not known
	changed map[string][]mcpclient.Change
	now     []mcpclient.Tool // as the server lists them, with the accepted classes
	fresh   []string         // tools that were not there
	gone    []string
}

func (d difference) any() bool {
	return d.launch || len(d.changed) > 0 || len(d.fresh) > 0 || len(d.gone) > 0
}

// compare starts the server and compares it with what was accepted.
func compare(ctx context.Context, at *session.Session, name string, s mcpclient.Server) (d difference, err error) {
	d = difference{launch: s.Launch != s.LaunchDigest(), was: s.Start, is: s.Started(), changed: map[string][]mcpclient.Change{}}
	if d.now, err = listed(ctx, at, name, s); err != nil {
		return d, err
	}
	there := map[string]bool{}
	for i := range d.now {
		t := &d.now[i]
		there[t.Name] = true
		pin, known := s.Tools[t.Name]
		if !known {
			d.fresh = append(d.fresh, t.Name)
			continue
		}
		t.Class = pin.Class
		if changes := pin.Changes(t.Pin); len(changes) > 0 {
			d.changed[t.Name] = changes
		}
	}
	for _, t := range sorted(s.Tools) {
		if !there[t.Name] {
			d.gone = append(d.gone, t.Name)
		}
	}
	return d, nil
}

// print prints the differences, with both sides if they are wanted.
func (d difference) print(p *output.Printer, name string, whole bool) {
	if !d.any() {
		p.Printf("%s: %s, as accepted\n", name, output.Count(len(d.now), "tool"))
		return
	}
	p.Printf("%s: not as accepted\n", name)
	d.printLaunch(p, whole)
	for _, t := range d.now {
		for _, c := range d.changed[t.Name] {
			p.Printf("  %s: another %s\n", plain.Line(t.Name), c.What)
			if whole {
				p.Printf("    - %s\n    + %s\n", plain.Line(c.Was), plain.Line(c.Now))
			}
		}
	}
	for _, tool := range d.fresh {
		p.Printf("  %s: a new tool\n", plain.Line(tool))
	}
	for _, tool := range d.gone {
		p.Printf("  %s: is gone\n", plain.Line(tool))
	}
}

// printLaunch says that the server is started in another way, if it is.
func (d difference) printLaunch(p *output.Printer, whole bool) {
	if !d.launch {
		return
	}
	p.Printf("  it is started or reached in another way\n")
	if whole && d.was != "" {
		p.Printf("    - %s\n    + %s\n", plain.Line(d.was), plain.Line(d.is))
	}
}

// errDiffers makes the exit status tell.
var errDiffers = errors.New("a server is not as accepted: `kairos tools diff NAME` shows it, `kairos tools accept NAME` accepts it")

func check(at *session.Session) *cobra.Command {
	return comparing(at, false, &cobra.Command{
		Use: "check [NAME]", Short: "Compare the servers with what was accepted", Args: cobra.MaximumNArgs(1),
		Example: "  kairos tools check\n  kairos tools check calendar",
	})
}

func diff(at *session.Session) *cobra.Command {
	return comparing(at, true, &cobra.Command{
		Use: "diff [NAME]", Short: "Show in what servers differ from what was accepted", Args: cobra.MaximumNArgs(1),
		Example: "  kairos tools diff calendar",
	})
}

func comparing(at *session.Session, whole bool, cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = localOnly
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, _, err := read(at)
		if err != nil {
			return err
		}
		names := f.Names()
		if len(args) > 0 {
			if _, err := addedServer(f, args[0]); err != nil {
				return err
			}
			names = args
		}
		p := &output.Printer{W: cmd.OutOrStdout()}
		if len(names) == 0 {
			p.Printf("no servers were added: `kairos tools add NAME -- COMMAND` adds one\n")
		}
		var errs []error
		for _, name := range names {
			d, err := compare(cmd.Context(), at, name, f.Servers[name])
			if err != nil {
				if d.launch {
					p.Printf("%s: not as accepted\n", name)
				}
				d.printLaunch(p, whole)
				errs = append(errs, err)
				continue
			}
			if d.print(p, name, whole); d.any() && !whole {
				errs = append(errs, errDiffers)
			}
		}
		return errors.Join(append(errs, p.Err)...)
	}
	return cmd
}

func accept(at *session.Session) *cobra.Command {
	var in added
	cmd := &cobra.Command{
		Use: "accept NAME", Short: "Accept a server as it is now", Args: cobra.ExactArgs(1), Annotations: localOnly,
		Long: `Shows in what the server differs from what was accepted, and accepts that once you agree. Tools keep the class that you gave
them, unless --reads or --changes says otherwise; a new one changes something until you say that it only reads.`,
		Example: "  kairos tools accept calendar",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, path, err := read(at)
			if err != nil {
				return err
			}
			s, err := addedServer(f, args[0])
			if err != nil {
				return err
			}
			d, err := compare(cmd.Context(), at, args[0], s)
			if err != nil {
				return err
			}
			p := &output.Printer{W: cmd.OutOrStdout()}
			if d.print(p, args[0], true); !d.any() && len(in.reads)+len(in.changes) == 0 {
				return p.Err
			}
			if err := d.reclass(in); err != nil {
				return err
			}
			for _, t := range d.now {
				p.Printf("  %-9s %s\n", t.Class, plain.Line(t.Name))
			}
			if !in.yes {
				agreed, err := ask.Agreed(cmd, p, "Accept this?")
				if err != nil {
					return err
				}
				if !agreed {
					return errors.New("nothing was accepted")
				}
			}
			err = change(path, func(f mcpclient.File) error {
				if f.Servers[args[0]].LaunchDigest() != s.LaunchDigest() {
					return fmt.Errorf("the server %s was changed meanwhile; nothing was accepted", args[0])
				}
				s = s.Accepted()
				s.Tools = pins(d.now)
				f.Servers[args[0]] = s
				return nil
			})
			if err != nil {
				return err
			}
			p.Printf("accepted: %s, %s\n", args[0], output.Count(len(d.now), "tool"))
			return errors.Join(p.Err, tell(cmd, at))
		},
	}
	cmd.Flags().StringSliceVar(&in.reads, "reads", nil, "tools that change nothing")
	cmd.Flags().StringSliceVar(&in.changes, "changes", nil, "tools that change something")
	cmd.Flags().BoolVarP(&in.yes, "yes", "y", false, "agree without a question")
	return cmd
}

// reclass applies what the flags say of the tools. Of a new tool nobody has said yet
// that it only reads.
func (d difference) reclass(in added) error {
	for i := range d.now {
		for _, name := range d.fresh {
			if d.now[i].Name == name {
				d.now[i].Class = mcpclient.Changes
			}
		}
	}
	for class, names := range map[mcpclient.Class][]string{mcpclient.Reads: in.reads, mcpclient.Changes: in.changes} {
		for _, name := range names {
			known := false
			for i := range d.now {
				if d.now[i].Name == name {
					d.now[i].Class, known = class, true
				}
			}
			if !known {
				return fmt.Errorf("the server has no tool %q; it has: %s", name, toolNames(d.now))
			}
		}
	}
	return nil
}

func toolNames(tools []mcpclient.Tool) string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return plain.Clip(plain.Line(strings.Join(names, ", ")), 500)
}

// Unready counts the servers that were added, and says which of them could not start:
// nothing is started to find out.
func Unready(at *session.Session) (added int, problems []error, err error) {
	file, _, err := read(at)
	if err != nil {
		return 0, nil, err
	}
	for _, name := range file.Names() {
		if err := file.Servers[name].Ready(); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	return len(file.Names()), problems, nil
}

// Missing returns the tools that no added server has.
func Missing(at *session.Session, names []string) ([]string, error) {
	file, _, err := read(at)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, name := range names {
		if len(file.Find(name)) == 0 {
			missing = append(missing, name)
		}
	}
	return missing, nil
}
