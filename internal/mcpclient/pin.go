package mcpclient

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"

	"github.com/mark3labs/mcp-go/mcp"
)

// Tool is a tool as its server describes it now.
type Tool struct {
	Name string
	Pin  // Class is the one that its annotations suggest
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
