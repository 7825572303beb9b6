// Package mcpclient calls the tools of MCP servers: those of tools.json, which KAIROS calls
// itself, and those that `kairos run` is given. It knows the file with what was pinned of each
// tool, and how a server is started or reached; it imports only sdk.
package mcpclient

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

// DriverName is the name of the driver that calls the tools.
const DriverName = "tools"

// MaxFile is how many bytes a file of servers may have.
const MaxFile = 4 << 20

// File is the content of tools.json, in the mcpServers shape that MCP clients share.
type File struct {
	Servers map[string]Server `json:"mcpServers"`
}

// Server is an MCP server: a command that speaks over stdio, or an address.
type Server struct {
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// EnvFrom maps a variable of the server to one of KAIROS's environment, so
	// that its value is in no file.
	EnvFrom map[string]string `json:"env_from,omitempty"`
	Dir     string            `json:"cwd,omitempty"`

	URL string `json:"url,omitempty"`
	// HeaderFiles maps an HTTP header to the file with its value.
	HeaderFiles map[string]string `json:"header_files,omitempty"`

	// Deduplicates: the server makes a call once, however often it gets the same key
	// (KeyOfMeta), as the operator says.
	Deduplicates bool `json:"deduplicates,omitempty"`

	// Launch is the digest of the fields above when a person accepted them, and Start
	// what they were; files of earlier versions have no Start.
	Launch string `json:"accepted_launch,omitempty"`
	Start  string `json:"accepted_start,omitempty"`
	// Tools are what a person accepted, by name.
	Tools map[string]Pin `json:"accepted_tools,omitempty"`
}

// Class is what a person says of a tool.
type Class string

// The classes.
const (
	// Reads: a call changes nothing, and may be repeated.
	Reads Class = "reads"
	// Changes: a call changes something, is made at most once, and approved each time.
	Changes Class = "changes"
)

// Pin is a tool as a person accepted it.
type Pin struct {
	Class       Class           `json:"class"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
}

var (
	serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	variable   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Parse reads a file. An empty one has no servers. A key that is not known is an
// error: what it was meant to say would be lost.
func Parse(data []byte) (File, error) {
	f := File{Servers: map[string]Server{}}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // some editors put this mark before UTF-8
	if len(bytes.TrimSpace(data)) == 0 {
		return f, nil
	}
	if len(data) > MaxFile {
		return f, fmt.Errorf("larger than %d bytes", MaxFile)
	}
	one, err := fields.DecodeOne(data)
	if err != nil {
		return f, err
	}
	if err := checkKeys(one); err != nil {
		return f, err
	}
	d := json.NewDecoder(bytes.NewReader(one))
	d.DisallowUnknownFields() // of the pins
	if err := d.Decode(&f); err != nil {
		return f, fields.Plain(err)
	}
	if f.Servers == nil {
		f.Servers = map[string]Server{}
	}
	var errs []error
	for _, name := range f.Names() {
		if err := f.Servers[name].Check(name); err != nil {
			errs = append(errs, fmt.Errorf("mcpServers.%s: %w", name, err))
		}
	}
	return f, errors.Join(errs...)
}

// Bytes is the file's content.
func (f File) Bytes() ([]byte, error) {
	b, err := json.MarshalIndent(f, "", "  ")
	return append(b, '\n'), err
}

// Paths lists what the servers need of this machine: their programs and headers, which
// are read, and the absolute paths that their other fields name, whether they exist or not.
func (f File) Paths() (read, named []string) {
	for _, name := range f.Names() {
		s := f.Servers[name]
		if program, err := exec.LookPath(s.Command); err == nil && filepath.IsAbs(program) {
			read = append(read, program)
		}
		read = slices.AppendSeq(read, maps.Values(s.HeaderFiles))
		words := append([]string{s.Dir}, s.Args...)
		words = slices.AppendSeq(words, maps.Values(s.Env))
		for _, word := range words {
			if _, value, ok := strings.Cut(word, "="); ok && !filepath.IsAbs(word) {
				word = value
			}
			if filepath.IsAbs(word) {
				named = append(named, filepath.Clean(word))
			}
		}
	}
	slices.Sort(named)
	return read, slices.Compact(named)
}

// Check says what is wrong with a server of that name.
func (s Server) Check(name string) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !serverName.MatchString(name) {
		wrong("a name has letters, digits, - and _, at most 64")
	}
	switch {
	case (s.Command == "") == (s.URL == ""):
		wrong("names either a command or a url")
	case s.URL != "" && !strings.HasPrefix(s.URL, "http://") && !strings.HasPrefix(s.URL, "https://"):
		wrong("url: %q is not an address that begins with http:// or https://", s.URL)
	case s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0 || len(s.EnvFrom) > 0 || s.Dir != ""):
		wrong("args, env, env_from and cwd are for a command")
	case s.Command != "" && len(s.HeaderFiles) > 0:
		wrong("header_files are for a url")
	}
	if s.Dir != "" && !filepath.IsAbs(s.Dir) {
		wrong("cwd: must be an absolute path")
	}
	for key := range s.Env {
		if !variable.MatchString(key) {
			wrong("env: %q is not the name of a variable", key)
		}
	}
	for key, from := range s.EnvFrom {
		if !variable.MatchString(key) || !variable.MatchString(from) {
			wrong("env_from: %q from %q are not names of variables", key, from)
		}
	}
	for header, file := range s.HeaderFiles {
		if !headerName.MatchString(header) || !filepath.IsAbs(file) {
			wrong("header_files: %q needs the name of a header and the absolute path of a file", header)
		}
	}
	for tool, p := range s.Tools {
		if p.Class != Reads && p.Class != Changes {
			wrong("accepted_tools.%s: class is %q: must be %s or %s", tool, p.Class, Reads, Changes)
		}
	}
	return errors.Join(errs...)
}

// Ready says what the server needs of this machine and does not find: its program, its
// folder, the files of its headers. It starts nothing.
func (s Server) Ready() error {
	var errs []error
	if s.Command != "" {
		if _, err := exec.LookPath(s.Command); err != nil {
			errs = append(errs, err)
		}
	}
	if info, err := os.Stat(s.Dir); s.Dir != "" && (err != nil || !info.IsDir()) {
		errs = append(errs, fmt.Errorf("cwd: %q is not a folder", s.Dir))
	}
	for _, header := range slices.Sorted(maps.Keys(s.HeaderFiles)) {
		if info, err := os.Stat(s.HeaderFiles[header]); err != nil || !info.Mode().IsRegular() {
			errs = append(errs, fmt.Errorf("header_files: %q of %s is not a file", s.HeaderFiles[header], header))
		}
	}
	return errors.Join(errs...)
}

// Found is a tool of one of the servers.
type Found struct {
	Server string
	Tool   string
	Pin    Pin
}

// Find finds the accepted tools that a challenge may mean.
func (f File) Find(name string) []Found {
	var all []Found
	for _, server := range f.Names() {
		for tool, pin := range f.Servers[server].Tools {
			all = append(all, Found{server, tool, pin})
		}
	}
	return Named(name, all, func(found Found) (server, tool string) { return found.Server, found.Tool })
}

// Named are the tools that a challenge may mean, of all that there are; of says the names of one.
// Hosts put the server's name in front of a tool in many ways ("mcp__calendar__find_slot",
// "calendar.find_slot"). The whole name of a server means that server alone.
func Named[T any](name string, all []T, of func(T) (server, tool string)) []T {
	var whole, maybe []T
	for _, each := range all {
		server, tool := of(each)
		switch qualifier, ok := qualifierOf(name, tool); {
		case !ok:
		case qualifier == server:
			whole = append(whole, each)
		case qualifier == "" || endsWithName(qualifier, server):
			maybe = append(maybe, each)
		}
	}
	if len(whole) > 0 {
		return whole
	}
	return maybe
}

// separators stand between the name of a server and that of its tool.
var separators = []string{"__", ".", ":", "/"}

// qualifierOf is what stands in front of the tool in the name; ok is false where the
// name does not end with the tool.
func qualifierOf(name, tool string) (qualifier string, ok bool) {
	if name == tool {
		return "", true
	}
	for _, separator := range separators {
		if qualifier, ok := strings.CutSuffix(name, separator+tool); ok && qualifier != "" {
			return qualifier, true
		}
	}
	return "", false
}

// endsWithName reports whether the qualifier ends with the name as a word of its own.
func endsWithName(qualifier, name string) bool {
	for _, separator := range separators {
		if strings.HasSuffix(qualifier, separator+name) {
			return true
		}
	}
	return false
}

// Tool is a tool as its server describes it now.
type Tool struct {
	Name string
	Pin  // Class is the one that its annotations suggest
}

// List is the plan with which the driver only lists what a server offers.
type List struct {
	Server string `json:"list"`
}

// Listed is what List answers.
type Listed struct {
	Tools []Tool `json:"tools"`
}

// LaunchDigest identifies how the server is started or reached.
func (s Server) LaunchDigest() string {
	sum := sha256.Sum256([]byte(s.Started()))
	return hex.EncodeToString(sum[:])
}

// Started is how the server is started or reached, as JSON.
func (s Server) Started() string {
	s.Launch, s.Start, s.Tools = "", "", nil
	b, err := json.Marshal(s)
	if err != nil {
		return "" // unreachable: texts
	}
	return string(b)
}

// Accepted is the server once a person accepted how it is started or reached.
func (s Server) Accepted() Server {
	s.Launch, s.Start = s.LaunchDigest(), s.Started()
	return s
}

// Digest identifies what was accepted of the tool besides its description.
func (p Pin) Digest() string {
	p.Description = ""
	b, err := json.Marshal(p)
	if err != nil {
		return "" // unreachable: was decoded from JSON
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Change is in what a tool differs from what was accepted.
type Change struct {
	What     string // "input_schema", "annotations" or "description"
	Was, Now string
}

// Changes lists in what the tool is not as accepted. A model that reads only the
// descriptions of tools is misled by a changed one.
func (p Pin) Changes(now Pin) []Change {
	var out []Change
	for _, c := range []Change{
		{"input_schema", string(canonical(p.InputSchema)), string(canonical(now.InputSchema))},
		{"annotations", string(canonical(p.Annotations)), string(canonical(now.Annotations))},
		{"description", p.Description, now.Description},
	} {
		if c.Was != c.Now {
			out = append(out, c)
		}
	}
	return out
}

// canonical is the JSON with sorted keys and without spaces.
func canonical(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw
	}
	b, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return b
}

var errToolName = errors.New("a tool has another name than 1 to 128 letters, digits and the characters _ - . /")

// toolName is the form of the names of tools (MCP, SEP-986). People read them in
// questions, so nothing in them may look like something else.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,128}$`)

// toolOf is a tool as a server lists it.
func toolOf(t mcp.Tool) (Tool, error) {
	if !toolName.MatchString(t.Name) {
		return Tool{}, errToolName
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return Tool{}, err
	}
	var shown struct {
		InputSchema json.RawMessage `json:"inputSchema"`
		Annotations json.RawMessage `json:"annotations"`
	}
	if err := json.Unmarshal(raw, &shown); err != nil {
		return Tool{}, err
	}
	class := Changes
	if hint := t.Annotations.ReadOnlyHint; hint != nil && *hint {
		class = Reads
	}
	return Tool{t.Name, Pin{
		Class: class, Description: t.Description, InputSchema: canonical(shown.InputSchema), Annotations: canonical(shown.Annotations),
	}}, nil
}
