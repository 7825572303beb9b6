package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

// Servers are MCP servers by the name the person gave them.
type Servers map[string]Server

// Server is an MCP server in the usual mcpServers format: a command that speaks over
// stdio, or an address.
type Server struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"` // sent to the address
}

// HostFile is the host's own configuration file: the usual mcpServers object
// and the servers that may sample unseen. Keys of other hosts are ignored.
type HostFile struct {
	Servers           Servers  `json:"mcpServers"`
	AllowAutoSampling []string `json:"allowAutoSampling"`
}

// maxHostFile is the size in bytes above which a host file is refused.
const maxHostFile = 1 << 20

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// ParseHostFile reads a host file. ${NAME} and ${NAME:-default} in the fields of a
// server are replaced by what lookup (such as os.LookupEnv) returns.
func ParseHostFile(data []byte, lookup func(string) (string, bool)) (HostFile, error) {
	var f HostFile
	if len(data) > maxHostFile {
		return f, fmt.Errorf("servers file is larger than %d bytes", maxHostFile)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return HostFile{}, fmt.Errorf("servers file: %w", err)
	}
	for name, s := range f.Servers {
		expanded, err := s.expand(lookup)
		if err != nil {
			return HostFile{}, fmt.Errorf("servers file: mcpServers.%s: %w", name, err)
		}
		f.Servers[name] = expanded
	}
	return f, nil
}

func (s Server) expand(lookup func(string) (string, bool)) (Server, error) {
	if (s.Command == "") == (s.URL == "") {
		return s, errors.New("it needs either a command or a url")
	}
	var errs []error
	replace := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(ref string) string {
			m := variable.FindStringSubmatch(ref)
			if value, ok := lookup(m[1]); ok {
				return value
			}
			if m[2] == "" {
				errs = append(errs, fmt.Errorf("environment variable %s is not set", m[1]))
			}
			return m[3]
		})
	}
	out := Server{
		Command: replace(s.Command), Args: slices.Clone(s.Args), Env: maps.Clone(s.Env), URL: replace(s.URL), Headers: maps.Clone(s.Headers),
	}
	for i, arg := range out.Args {
		out.Args[i] = replace(arg)
	}
	for _, values := range []map[string]string{out.Env, out.Headers} {
		for key, value := range values {
			values[key] = replace(value)
		}
	}
	if out.URL != "" && !strings.HasPrefix(out.URL, "https://") && !strings.HasPrefix(out.URL, "http://") {
		errs = append(errs, fmt.Errorf("url: %q does not begin with http:// or https://", out.URL))
	}
	return out, errors.Join(errs...)
}

// MaxSidecar is the size in bytes above which a sidecar is refused: a person has to
// read all of it before they agree.
const MaxSidecar = 4 << 10

// ParseSidecar reads the servers file that came with a protocol. Its author is a
// stranger, so what it says is exactly what is started: a key that is not known
// and a variable are errors.
func ParseSidecar(data []byte) (Servers, error) {
	if len(data) > MaxSidecar {
		return nil, fmt.Errorf("larger than %d bytes", MaxSidecar)
	}
	one, err := fields.DecodeOne(data)
	if err != nil {
		return nil, err
	}
	var file struct {
		Servers Servers `json:"mcpServers"`
	}
	d := json.NewDecoder(bytes.NewReader(one))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, err
	}
	if len(file.Servers) == 0 {
		return nil, errors.New("mcpServers names no server")
	}
	for _, name := range slices.Sorted(maps.Keys(file.Servers)) {
		s := file.Servers[name]
		if len(s.Headers) > 0 {
			return nil, fmt.Errorf("mcpServers.%s: headers are sent only by a file of your own: name one with --servers", name)
		}
		if texts := append([]string{s.Command, s.URL}, append(s.Args, slices.Collect(maps.Values(s.Env))...)...); slices.ContainsFunc(texts, variable.MatchString) {
			return nil, fmt.Errorf("mcpServers.%s: variables such as ${HOME} are not replaced in a file that came with a protocol; "+
				"name a file of your own with --servers", name)
		}
		if _, err := s.expand(nil); err != nil {
			return nil, fmt.Errorf("mcpServers.%s: %w", name, err)
		}
	}
	return file.Servers, nil
}

// Below returns the servers with the folder that relative paths of commands begin
// at. A command without a slash is a program of the PATH.
func (s Servers) Below(dir string) Servers {
	out := make(Servers, len(s))
	for name, server := range s {
		if strings.ContainsRune(server.Command, filepath.Separator) && !filepath.IsAbs(server.Command) {
			server.Command = filepath.Join(dir, server.Command)
		}
		out[name] = server
	}
	return out
}

// Names are the names of the servers in order.
func (s Servers) Names() []string { return slices.Sorted(maps.Keys(s)) }
