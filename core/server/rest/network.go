package rest

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/fault"
)

// anyName in a list of hosts or origins allows all of them.
const anyName = "*"

// Access says from where requests are taken.
type Access struct {
	// Local: only this machine reaches the listener, so only its names are
	// hosts. Otherwise any address is one, too; names have to be listed.
	Local bool
	// Hosts are further hosts by which the server is called, without port;
	// "*": any.
	Hosts []string
	// Origins are further origins whose pages may call, such as
	// https://app.example.org; "*": any. The server's own pages always may.
	Origins []string
	// Proxies are believed what X-Forwarded-For and -Proto say.
	Proxies []netip.Prefix
}

// network decides by Access who may call, and from where a request comes.
type network struct {
	access  Access
	origins map[string]bool // those of access, in the form that parseOrigin gives
}

// newNetwork expects origins that Config.Validate has accepted.
func newNetwork(access Access) network {
	n := network{access: access, origins: make(map[string]bool)}
	for _, o := range access.Origins {
		origin, _ := parseOrigin(o)
		n.origins[origin] = true
	}
	return n
}

// hosted refuses names that are not the server's: a page whose name was made to
// resolve to this machine (DNS rebinding) still sends its own name.
func (n network) hosted(next handler) handler {
	return func(c *call) {
		if !n.access.host(c.r.Host) {
			c.refuse(fault.HostNotAllowed,
				"This server is not called %.100q. If it is, add the name to http.allowed_hosts.", c.r.Host)
			return
		}
		next(c)
	}
}

// host reports whether the server may be called so.
func (a Access) host(hostport string) bool {
	name := hostname(hostport)
	if slices.Contains(a.Hosts, anyName) || loopback(name) {
		return true
	}
	for _, allowed := range a.Hosts {
		if name != "" && name == hostname(allowed) {
			return true
		}
	}
	// Rebinding needs a name; an address is where the client has really gone.
	_, err := netip.ParseAddr(name)
	return err == nil && !a.Local
}

// hostname is a host without port and brackets, as names are compared.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// loopback reports whether a host name means this machine.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Headers and methods that browsers may use across origins.
const (
	corsHeaders = "Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, " +
		"Traceparent, X-LLM-Model-ID, X-Force-Update"
	corsExposed = "Mcp-Session-Id, Retry-After, WWW-Authenticate"
	corsMethods = "GET, POST, DELETE, OPTIONS"
)

// crossOrigin refuses pages of other origins and answers what browsers ask
// before they let an allowed page call. Programs send no Origin.
func (n network) crossOrigin(next handler) handler {
	return func(c *call) {
		sent := c.r.Header.Values("Origin")
		if len(sent) == 0 {
			next(c)
			return
		}
		h := c.w.Header()
		h.Add("Vary", "Origin")
		if len(sent) > 1 || !n.allows(sent[0], c.r.Host) {
			c.refuse(fault.OriginNotAllowed,
				"Pages of %.100q may not call this server. If they should, add the origin to http.allowed_origins.", sent[0])
			return
		}
		h.Set("Access-Control-Allow-Origin", sent[0])
		h.Set("Access-Control-Expose-Headers", corsExposed)
		if c.r.Method != http.MethodOptions || c.r.Header.Get("Access-Control-Request-Method") == "" {
			next(c)
			return
		}
		if c.route == nil {
			c.json(http.StatusNotFound, map[string]any{"error": "Not found"})
			return
		}
		h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
		h.Set("Access-Control-Allow-Methods", corsMethods)
		if len(c.route.methods) > 0 {
			h.Set("Access-Control-Allow-Methods", c.route.allow())
		}
		h.Set("Access-Control-Allow-Headers", corsHeaders)
		h.Set("Access-Control-Max-Age", "600") // seconds
		c.w.WriteHeader(http.StatusNoContent)
	}
}

// allows reports whether pages of the origin may call: those that the server
// itself serves, and those that are listed. Other pages of this machine may not:
// any program, also one of another user, can serve one.
func (n network) allows(origin, host string) bool {
	if slices.Contains(n.access.Origins, anyName) {
		return true
	}
	o, err := parseOrigin(origin)
	if err != nil {
		return false // "null" among them: anybody can have that one
	}
	if n.origins[o] {
		return true
	}
	own := "http://" + host
	if strings.HasPrefix(o, "https:") { // TLS may end at a proxy
		own = "https://" + host
	}
	own, err = parseOrigin(own)
	return err == nil && o == own
}

// parseOrigin returns an origin in the form in which origins are compared.
func parseOrigin(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("origin %.100q must be like https://app.example.org", s)
	}
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return strings.ToLower(u.Scheme) + "://" + host, nil
}

// remote is the client's address: what trusted proxies say it is, else the
// connection's.
func (n network) remote(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	at := peer.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !n.trusts(at) {
			break
		}
		ip, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		at = ip.Unmap()
	}
	return at.String()
}

func (n network) trusts(ip netip.Addr) bool {
	return slices.ContainsFunc(n.access.Proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// base is the address by which the client called, without a slash at its end.
func (n network) base(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err == nil && n.trusts(peer.Addr().Unmap()) && r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// Hosts lets only requests through to h that name the server as it is called,
// as the guards of an API do: for other ports.
func Hosts(access Access, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !access.host(r.Host) {
			http.Error(w, "This server is not called so. If it is, add the name to http.allowed_hosts.", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
