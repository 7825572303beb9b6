package play

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ask"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/tools"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/terminal"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// withServers is the flag that answers for the person whether the programs of a
// sidecar are started.
const withServers = "with-servers"

// sidecarOf is the name of the servers file beside a protocol.
func sidecarOf(protocol string) string {
	return strings.TrimSuffix(protocol, filepath.Ext(protocol)) + ".servers.json"
}

// readSidecar returns the servers of a sidecar; none: there is no such file.
func readSidecar(path string) (terminal.Servers, error) {
	own := func(name string, flag int, perm os.FileMode) (*os.File, error) {
		return os.OpenFile(name, flag|syscall.O_NOFOLLOW, perm)
	}
	f, err := files.Open(own, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%s is a symbolic link, and the file beside a protocol has to be one of its own", path)
	case err != nil:
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, terminal.MaxSidecar+1))
	if err != nil {
		return nil, err
	}
	servers, err := terminal.ParseSidecar(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	return servers.Below(dir), err
}

// offered are the servers of the protocol's sidecar if the person wants them
// started. The file came with the protocol, so it is not a permission: all that
// it starts is shown, and without an answer nothing is started. Nobody is asked where
// added servers have every tool that the protocol needs.
func (f Flags) offered(cmd *cobra.Command, at *session.Session, file string, document []byte) (terminal.Servers, error) {
	answered := cmd.Flags().Changed(withServers)
	if f.servers != "" || answered && !f.withServers {
		return nil, nil
	}
	path := sidecarOf(file)
	servers, err := readSidecar(path)
	if err != nil {
		return nil, fmt.Errorf("read the servers of the protocol: %w; --%s=false runs it without them", err, withServers)
	}
	if servers == nil {
		if answered {
			return nil, fmt.Errorf("--%s: there is no file %s", withServers, path)
		}
		return nil, nil
	}
	if needed := toolsOf(document); len(needed) > 0 && !answered {
		if missing, err := tools.Missing(at, needed); err != nil || len(missing) == 0 {
			return nil, err
		}
	}
	return agreed(cmd, path, servers)
}

// toolsOf are the tools that the steps of a document need.
func toolsOf(document []byte) (names []string) {
	chains, _ := protocol.Parse(document) // what is wrong with it is said when it is stored
	for _, chain := range chains {
		for _, step := range chain.Steps {
			if tool := terminal.ToolOf(step.Challenge); tool != "" {
				names = append(names, tool)
			}
		}
	}
	return names
}

// agreed shows the servers and returns them if the person, or the flag, says that
// they are started.
func agreed(cmd *cobra.Command, path string, servers terminal.Servers) (terminal.Servers, error) {
	answered := cmd.Flags().Changed(withServers)
	p := &output.Printer{W: cmd.OutOrStdout()}
	p.Printf("%s names servers with tools for this protocol:\n", path)
	for _, name := range servers.Names() {
		p.Printf("  %s: %s\n", name, commandLine(servers[name]))
	}
	if p.Err != nil {
		return nil, p.Err
	}
	if !answered && !output.IsTerminal(cmd.InOrStdin()) {
		p.Printf("They are not started: nobody can be asked here, and --%s is not given.\n", withServers)
		return nil, p.Err
	}
	for _, name := range servers.Names() {
		if servers[name].URL != "" {
			continue
		}
		if _, err := exec.LookPath(servers[name].Command); err != nil {
			return nil, fmt.Errorf("%s: the program of %s cannot be started: %w; build or install it, or run the protocol without it (--%s=false)",
				path, name, err, withServers)
		}
	}
	if answered {
		return servers, nil
	}
	yes, err := ask.Agreed(cmd, p, "KAIROS has not checked them. Start them when a step needs a tool?")
	if err != nil {
		return nil, err
	}
	if !yes {
		p.Printf("%s\n", output.Lines(p.Wrapped("They are not started. A step that needs one of their tools ends the run, unless KAIROS calls the tool itself: "+
			"`kairos tools add` adds a server for that.", "")))
		return nil, p.Err
	}
	return servers, nil
}

var plainWord = regexp.MustCompile(`^[\w@%+:,./=-]+$`)

// commandLine is what is started, as it is typed in a shell, or the address.
func commandLine(s terminal.Server) string {
	if s.URL != "" {
		return s.URL
	}
	var words []string
	for _, key := range slices.Sorted(maps.Keys(s.Env)) {
		words = append(words, quoted(key)+"="+quoted(s.Env[key]))
	}
	for _, word := range append([]string{s.Command}, s.Args...) {
		words = append(words, quoted(word))
	}
	return strings.Join(words, " ")
}

func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
