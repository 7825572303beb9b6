package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// Servers are MCP servers by the name the person gave them.
type Servers map[string]Server

// Server is a stdio MCP server in the usual mcpServers format.
type Server struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	URL     string            `json:"url"` // only named in errors: other transports are not spoken
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

// ParseHostFile reads a host file. ${NAME} and ${NAME:-default} in command,
// args and env are replaced by what lookup (such as os.LookupEnv) returns.
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
	if s.Command == "" {
		if s.URL != "" {
			return s, errors.New("only servers with a command (stdio) are supported")
		}
		return s, errors.New("command is missing")
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
	out := Server{Command: replace(s.Command), Args: slices.Clone(s.Args), Env: make(map[string]string, len(s.Env))}
	for i, arg := range out.Args {
		out.Args[i] = replace(arg)
	}
	for key, value := range s.Env {
		out.Env[key] = replace(value)
	}
	return out, errors.Join(errs...)
}
