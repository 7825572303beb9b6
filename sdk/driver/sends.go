package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ClientMethod is a request that a capability driver makes of the client.
type ClientMethod struct {
	// Method is the MCP method, such as "acme/confirm".
	Method string `json:"method"`
	// Needs are RFC 6901 pointers into what the client declared. The request is
	// sent only to a client that declared all of them. A method that MCP itself
	// does not define needs one below /experimental or /extensions.
	Needs []string `json:"needs,omitempty"`
}

// standard are the requests that MCP lets a server make of a client, with the
// capability that each needs. The first row that fits a request counts.
var standard = []struct {
	method string
	param  string // pointer to a parameter that must be there; empty: fits any request
	value  string // of the parameter; empty: any
	need   string
}{
	{"elicitation/create", "/mode", "url", "/elicitation/url"},
	{"elicitation/create", "", "", "/elicitation/form"},
	{"sampling/createMessage", "/tools", "", "/sampling/tools"},
	{"sampling/createMessage", "", "", "/sampling"},
	{"roots/list", "", "", "/roots"},
}

// reserved are the namespaces of MCP; JSON-RPC reserves those that begin with
// rpc. as well. A driver may use no method in them except
// the standard ones.
var reserved = []string{
	"completion", "elicitation", "initialize", "logging", "notifications", "ping", "prompts", "resources", "roots",
	"sampling", "server", "subscriptions", "tasks", "tools",
}

// Bounds of ClientMethod.
const (
	maxMethod  = 128 // bytes
	maxNeeds   = 8
	maxPointer = 256 // bytes
)

var (
	methodPattern  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)+$`)
	pointerPattern = regexp.MustCompile(`^(/([^~/]|~[01])+)+$`)
)

// CheckPointer reports what is wrong with a pointer into a client's capabilities,
// or nil.
func CheckPointer(pointer string) error {
	if len(pointer) > maxPointer || !pointerPattern.MatchString(pointer) {
		return fmt.Errorf("%.80q is not an RFC 6901 pointer of at most %d bytes, such as /experimental/acme~1confirm", pointer, maxPointer)
	}
	return nil
}

// Check reports what is wrong with the declaration, or nil.
func (m ClientMethod) Check() error {
	var errs []error
	space, _, _ := strings.Cut(strings.ToLower(m.Method), "/")
	switch {
	case MCPDefines(m.Method):
	case slices.Contains(reserved, space) || strings.HasPrefix(space, "rpc."):
		errs = append(errs, fmt.Errorf("method %.80q belongs to MCP itself: a driver may send %s, or a method of its own such as acme/confirm",
			m.Method, strings.Join(standardMethods(), ", ")))
	case len(m.Method) > maxMethod || !methodPattern.MatchString(m.Method):
		errs = append(errs, fmt.Errorf("method %.80q does not match %s or is longer than %d bytes", m.Method, methodPattern, maxMethod))
	case !slices.ContainsFunc(m.Needs, ownCapability):
		errs = append(errs, fmt.Errorf("method %q is not part of MCP, so needs must name what a client declares for it, below /experimental/ or /extensions/", m.Method))
	}
	if len(m.Needs) > maxNeeds {
		errs = append(errs, fmt.Errorf("method %.80q: needs has %d entries, at most %d are read", m.Method, len(m.Needs), maxNeeds))
	}
	for _, pointer := range m.Needs {
		if err := CheckPointer(pointer); err != nil {
			errs = append(errs, fmt.Errorf("method %.80q: needs: %w", m.Method, err))
		}
	}
	return errors.Join(errs...)
}

// MCPDefines reports whether the method is a request that MCP itself lets a server
// make of a client.
func MCPDefines(method string) bool { return slices.Contains(standardMethods(), method) }

func standardMethods() []string {
	var out []string
	for _, s := range standard {
		if !slices.Contains(out, s.method) {
			out = append(out, s.method)
		}
	}
	return out
}

// ownCapability reports whether a pointer leads to a capability that MCP leaves to others.
func ownCapability(pointer string) bool {
	for _, parent := range []string{"/experimental/", "/extensions/"} {
		if strings.HasPrefix(pointer, parent) && len(pointer) > len(parent) {
			return true
		}
	}
	return false
}

// Methods lists the requests that the driver may make of the client.
func (d Descriptor) Methods() []string {
	switch {
	case d.Role == RoleChallenge:
		return nil
	case len(d.Sends) == 0:
		return standardMethods()
	}
	var out []string
	for _, m := range d.Sends {
		out = append(out, m.Method)
	}
	return out
}

// Demands lists what a client must have declared to be sent the request, as RFC
// 6901 pointers. The error says why the driver may not send it to anybody. A
// driver can add to what MCP demands, but not take away from it.
func (d Descriptor) Demands(r ClientRequest) ([]string, error) {
	own := slices.IndexFunc(d.Sends, func(m ClientMethod) bool { return m.Method == r.Method })
	if own < 0 && len(d.Sends) > 0 {
		return nil, fmt.Errorf("driver %s does not declare that it sends %.80q", d.Name, r.Method)
	}
	var params any
	if len(r.Params) > 0 {
		if err := json.Unmarshal(r.Params, &params); err != nil {
			return nil, fmt.Errorf("the parameters of %.80q are not JSON: %w", r.Method, err)
		}
	}
	var demands []string
	for _, s := range standard {
		if value, ok := at(params, s.param); s.method == r.Method && ok && (s.value == "" || value == s.value) {
			demands = append(demands, s.need)
			break
		}
	}
	if own >= 0 {
		demands = append(demands, d.Sends[own].Needs...)
	}
	if len(demands) == 0 {
		return nil, fmt.Errorf("driver %s does not declare that it sends %.80q, which MCP does not define", d.Name, r.Method)
	}
	return demands, nil
}
