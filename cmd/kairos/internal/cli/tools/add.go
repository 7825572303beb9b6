package tools

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ask"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// added are the flags of `kairos tools add`.
type added struct {
	url            string
	env, envFrom   map[string]string
	headerFiles    map[string]string
	reads, changes []string
	yes, replace   bool
	deduplicates   bool
}

func add(at *session.Session) *cobra.Command {
	var in added
	cmd := &cobra.Command{
		Use: "add NAME [--url URL] [-- COMMAND ARGS...]", Short: "Add a server and say what its tools do", Args: cobra.MinimumNArgs(1), Annotations: localOnly,
		Long: `Starts the server, lists its tools and asks which of them change something. The server's own word for it is filled in; it may lie.
The server gets HOME, PATH, the language and the time zone of KAIROS's environment, and what --env and --env-from name.`,
		Example: "  kairos tools add calendar -- bin/calendar-server --state calendar.json\n  kairos tools add tickets --url https://tickets.example/mcp --header-file Authorization=/etc/kairos/tickets.header",
		RunE:    func(cmd *cobra.Command, args []string) error { return in.add(cmd, at, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&in.url, "url", "", "address of a server that runs already")
	flags.StringToStringVar(&in.env, "env", nil, "variables of the server, NAME=VALUE; they are kept in the file")
	flags.StringToStringVar(&in.envFrom, "env-from", nil, "variables of the server from those of KAIROS, NAME=VARIABLE; their values are kept nowhere")
	flags.StringToStringVar(&in.headerFiles, "header-file", nil, "HTTP headers from files, NAME=FILE")
	flags.StringSliceVar(&in.reads, "reads", nil, "tools that change nothing")
	flags.StringSliceVar(&in.changes, "changes", nil, "tools that change something")
	flags.BoolVarP(&in.yes, "yes", "y", false, "take the server's word for the tools that no flag names")
	flags.BoolVar(&in.deduplicates, "deduplicates", false, "the server makes a call once, however often it gets the same idempotency key: a call that is cut off is repeated")
	flags.BoolVar(&in.replace, "replace", false, "take the place of a server of this name")
	return cmd
}

// add is `kairos tools add`: args are the name and the command.
func (in added) add(cmd *cobra.Command, at *session.Session, args []string) error {
	s, err := in.server(args[1:])
	if err != nil {
		return err
	}
	if err := s.Check(args[0]); err != nil {
		return err
	}
	f, path, err := read(at)
	if err != nil {
		return err
	}
	if _, there := f.Servers[args[0]]; there && !in.replace {
		return fmt.Errorf("there is a server %q: --replace takes its place, `kairos tools remove %s` removes it", args[0], args[0])
	}
	if err := confined(at, args[0], s); err != nil {
		return err
	}
	found, err := listed(cmd.Context(), at, args[0], s)
	if err != nil {
		return err
	}
	if err := once(found); err != nil {
		return err
	}
	if err := classify(cmd, found, in.reads, in.changes, in.yes); err != nil {
		return err
	}
	s = s.Accepted()
	s.Tools = pins(found)
	if err := change(path, func(f mcpclient.File) error { f.Servers[args[0]] = s; return nil }); err != nil {
		return err
	}
	p := &output.Printer{W: cmd.OutOrStdout()}
	p.Printf("added: %s, %s", args[0], output.Count(len(found), "tool"))
	if changes := changing(found); len(changes) > 0 {
		p.Printf("; approved each time: %s", strings.Join(changes, ", "))
	}
	p.Printf("\n")
	p.Printf("%s", shared(f, args[0], found))
	p.Printf("  kairos run FILE         asks whether KAIROS may call them for its steps\n")
	p.Printf("  kairos accept PROTOCOL  the same for a protocol that is stored\n")
	return errors.Join(p.Err, tell(cmd, at))
}

// server is what the flags describe. A program is named by its whole path, and
// works in the folder where it was added.
func (in added) server(argv []string) (s mcpclient.Server, err error) {
	s = mcpclient.Server{URL: in.url, Env: in.env, EnvFrom: in.envFrom, HeaderFiles: map[string]string{}, Deduplicates: in.deduplicates}
	for header, file := range in.headerFiles {
		if s.HeaderFiles[header], err = filepath.Abs(file); err != nil {
			return s, err
		}
	}
	if len(argv) == 0 {
		return s, nil
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return s, fmt.Errorf("%q is not a program: %w", argv[0], err)
	}
	if s.Command, err = filepath.Abs(path); err != nil {
		return s, err
	}
	s.Args = argv[1:]
	s.Dir, err = os.Getwd()
	return s, err
}

func pins(found []mcpclient.Tool) map[string]mcpclient.Pin {
	out := map[string]mcpclient.Pin{}
	for _, t := range found {
		out[t.Name] = t.Pin
	}
	return out
}

// classify lets the person say which of the tools change something.
func classify(cmd *cobra.Command, found []mcpclient.Tool, reads, changes []string, yes bool) error {
	for _, name := range slices.Concat(reads, changes) {
		if !slices.ContainsFunc(found, func(t mcpclient.Tool) bool { return t.Name == name }) {
			return fmt.Errorf("the server has no tool %q", name)
		}
	}
	says, open := 0, 0
	for i := range found {
		t := &found[i]
		if t.Class == mcpclient.Reads {
			says++
		}
		switch {
		case slices.Contains(changes, t.Name):
			t.Class = mcpclient.Changes
		case slices.Contains(reads, t.Name):
			t.Class = mcpclient.Reads
		default:
			open++
		}
	}
	p := &output.Printer{W: cmd.OutOrStdout()}
	who := ". You decide:"
	if yes && open > 0 {
		who = ", and --yes takes its word:"
	}
	p.Printf("%s. The server says that %d only read%s\n", output.Count(len(found), "tool"), says, who)
	for _, t := range found {
		about := ""
		if t.Description != "" {
			about = ": " + plain.Clip(plain.Line(t.Description), 100)
		}
		p.Broken("            ", "  %-9s %s%s", t.Class, t.Name, about)
	}
	if p.Err != nil || open == 0 || yes {
		return p.Err
	}
	return askClasses(cmd, p, found)
}

// askClasses asks a person which tools change something, until the answer names only
// tools that there are.
func askClasses(cmd *cobra.Command, p *output.Printer, found []mcpclient.Tool) error {
	question := fmt.Sprintf("Which of them change something? Names, or none [%s]:", cmp.Or(strings.Join(changing(found), ", "), "none"))
	for {
		answer, err := ask.Line(cmd, p, question)
		if err != nil || answer == "" {
			return err
		}
		chosen := strings.FieldsFunc(answer, func(r rune) bool { return r == ',' || r == ' ' })
		if answer == "none" || answer == "-" {
			chosen = nil
		}
		unknown := slices.IndexFunc(chosen, func(name string) bool {
			return !slices.ContainsFunc(found, func(t mcpclient.Tool) bool { return t.Name == name })
		})
		if unknown >= 0 {
			p.Printf("the server has no tool %q\n", chosen[unknown])
			continue
		}
		for i := range found {
			t := &found[i]
			was := t.Class
			t.Class = mcpclient.Reads
			if slices.Contains(chosen, t.Name) {
				t.Class = mcpclient.Changes
			} else if was == mcpclient.Changes {
				p.Printf("  %s: the server does not say that it only reads. It will be called without an approval.\n", plain.Line(t.Name))
			}
		}
		return p.Err
	}
}

// changing are the names of the tools that change something.
func changing(found []mcpclient.Tool) (names []string) {
	for _, t := range found {
		if t.Class == mcpclient.Changes {
			names = append(names, plain.Line(t.Name))
		}
	}
	return names
}
