package driver

import (
	"encoding/json"
	"strings"
)

// Client says what the connected client can do.
type Client struct {
	Name            string `json:"name"`
	Version         string `json:"version"`
	Era             string `json:"era"` // MCP protocol version
	Transport       string `json:"transport"`
	ElicitationForm bool   `json:"elicitation_form"`
	ElicitationURL  bool   `json:"elicitation_url"`
	Sampling        bool   `json:"sampling"`
	Roots           bool   `json:"roots"`
	// Capabilities are those that the client declared, a JSON object as in MCP. A
	// host leaves out a declaration that is too large.
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
}

// Names for what a capability driver may need; see Descriptor.Needs.
const (
	NeedElicitationForm = "elicitation.form"
	NeedElicitationURL  = "elicitation.url"
	// NeedElicitation is elicitation in either mode.
	NeedElicitation = "elicitation"
	NeedSampling    = "sampling"
	NeedRoots       = "roots"
	// NeedApprovalPage is not a capability of the client: the server has a page on
	// which people answer approvals, see Links.
	NeedApprovalPage = "approval_page"
)

// named are the capabilities that Client has a field for, by their pointer. A
// host that predates Client.Capabilities sets only the fields.
var named = []struct {
	need, pointer string
	has           func(Client) bool
}{
	{NeedElicitation, "/elicitation", func(c Client) bool { return c.ElicitationForm || c.ElicitationURL }},
	{NeedElicitationForm, "/elicitation/form", func(c Client) bool { return c.ElicitationForm }},
	{NeedElicitationURL, "/elicitation/url", func(c Client) bool { return c.ElicitationURL }},
	{NeedSampling, "/sampling", func(c Client) bool { return c.Sampling }},
	{NeedRoots, "/roots", func(c Client) bool { return c.Roots }},
}

// CapabilityPointer returns the pointer for an entry of Descriptor.Needs; false:
// the entry does not name a capability of the client.
func CapabilityPointer(need string) (pointer string, ok bool) {
	for _, n := range named {
		if n.need == need {
			return n.pointer, true
		}
	}
	return need, strings.HasPrefix(need, "/")
}

// Declares reports whether the client declared the capability at an RFC 6901
// pointer: there is a value, and it is neither null nor false.
func (c Client) Declares(pointer string) bool {
	for _, n := range named {
		if n.pointer == pointer {
			return n.has(c)
		}
	}
	var capabilities map[string]any
	if json.Unmarshal(c.Capabilities, &capabilities) != nil {
		return false
	}
	return Declared(capabilities, pointer)
}

// Declared is Client.Declares for decoded capabilities.
func Declared(capabilities map[string]any, pointer string) bool {
	value, ok := at(capabilities, pointer)
	return ok && value != nil && value != false
}

// at follows a pointer through objects.
func at(value any, pointer string) (any, bool) {
	if pointer == "" {
		return value, true
	}
	tokens := strings.Split(pointer, "/")
	if tokens[0] != "" {
		return nil, false
	}
	for _, token := range tokens[1:] {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = object[unescape.Replace(token)]; !ok {
			return nil, false
		}
	}
	return value, true
}

// DeclareCapability adds to the capabilities of a client, as decoded JSON, the one that an RFC 6901 pointer
// names. It makes an object at each place of the pointer that has none.
func DeclareCapability(capabilities map[string]any, pointer string) {
	for _, token := range strings.Split(pointer, "/")[1:] {
		key := unescape.Replace(token)
		below, ok := capabilities[key].(map[string]any)
		if !ok {
			below = map[string]any{}
			capabilities[key] = below
		}
		capabilities = below
	}
}

// unescape reads a token of a pointer.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")
