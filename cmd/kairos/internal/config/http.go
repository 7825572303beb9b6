package config

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

// problems are those of the settings in a server to which people can log in, unless realm is empty.
func (c approvalConfig) problems(realm string) []error {
	var errs []error
	if c.Listen != "" {
		errs = addressProblems("approval.listen", c.Listen)
		if len(errs) == 0 && !IsLocal(c.Listen) {
			errs = append(errs, fmt.Errorf("approval.listen is %q: must be an address of this machine alone, such as 127.0.0.1:0; "+
				"`kairos serve --http` serves the page for others", c.Listen))
		}
	}
	if why := protocol.BadHow(c.How); why != "" {
		errs = append(errs, fmt.Errorf("approval.how %s", why))
	}
	if why := protocol.Unmet(c.How); realm == "" && why != "" {
		errs = append(errs, fmt.Errorf("approval.how: %s", why))
	}
	return errs
}

// publicURLProblem says what is wrong with the address by which people reach
// the server.
func publicURLProblem(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !hostName.MatchString(u.Host) || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("http.public_url is %q: must be like https://kairos.example.org", s)
	}
	if before, ok := strings.CutSuffix(strings.TrimRight(s, "/"), "/mcp"); ok {
		return fmt.Errorf("http.public_url is %q: it is the address of the server and not of its endpoint: write %s", s, before)
	}
	return nil
}

// Where the ports are unless configured.
const (
	defaultListen  = "127.0.0.1:3300"
	DefaultMetrics = "127.0.0.1:9390"
)

// httpConfig is the main port. It is opened only by `kairos serve --http`.
type httpConfig struct {
	// Listen is host:port. Default 127.0.0.1:3300.
	Listen string `yaml:"listen"`
	// PublicURL is the address by which people reach the server, for links.
	// Default: the listener's own.
	PublicURL string `yaml:"public_url"`
	// AllowedOrigins are origins whose pages may call, besides the server's own.
	AllowedOrigins []string `yaml:"allowed_origins"`
	// AllowedHosts are names by which the server is called, besides those of this machine.
	AllowedHosts []string `yaml:"allowed_hosts"`
	// TrustedProxies are the networks of proxies, as CIDR, that are believed
	// whose request they pass on.
	TrustedProxies []string  `yaml:"trusted_proxies"`
	TLS            tlsConfig `yaml:"tls"`
	// Insecure lets the server listen beyond loopback without authentication or TLS; the flag
	// --insecure sets it, because it is about one address and not about a file.
	Insecure bool `yaml:"-"`
	// Operations: the calls of operators are served. Default: where only this
	// machine reaches the server.
	Operations *bool `yaml:"operations"`
}

// ServesOperations reports whether the calls of operators are served over HTTP: their token
// lies beside the admin socket, and beyond this machine it goes through the network.
func (c Config) ServesOperations() bool {
	if c.Admin.Socket == AdminOff {
		return false
	}
	if c.HTTP.Operations != nil {
		return *c.HTTP.Operations
	}
	return IsLocal(c.HTTP.Listen)
}

// ShutdownTime is how long calls in flight may continue when a server is stopped.
const ShutdownTime = 10 * time.Second

type tlsConfig struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// metricsConfig is the port of the metrics.
type metricsConfig struct {
	// Listen is host:port; "off": none. Empty: 127.0.0.1:9390, and any free port if that
	// is taken.
	Listen string `yaml:"listen"`
	// Instance is the label of this server: INSTANCE_ID, else the name of the machine.
	Instance string `yaml:"-"`
}

// MetricsOff turns the port of the metrics off.
const MetricsOff = "off"

// overlay applies the environment, by the names of the earlier server.
func (c *httpConfig) overlay(lookup func(string) (string, bool)) error {
	if v, _ := lookup("TRUSTED_PROXY_CIDRS"); v != "" {
		c.TrustedProxies = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
	}
	return overlayPort(lookup, "PORT", &c.Listen, defaultListen)
}

func (c *metricsConfig) overlay(lookup func(string) (string, bool)) error {
	if v, _ := lookup("INSTANCE_ID"); v != "" {
		c.Instance = v
	}
	return overlayPort(lookup, "METRICS_PORT", &c.Listen, DefaultMetrics)
}

// overlayPort replaces the port of an address, or of the default one.
func overlayPort(lookup func(string) (string, bool), name string, address *string, otherwise string) error {
	v, _ := lookup(name)
	if v == "" {
		return nil
	}
	if n, err := strconv.ParseUint(v, 10, 16); err != nil {
		return fmt.Errorf("environment %s=%q: must be a port from 0 to %d", name, v, math.MaxUint16)
	} else if v = strconv.FormatUint(n, 10); *address == MetricsOff {
		*address = "" // who names a port wants it
	}
	host, _, err := net.SplitHostPort(cmp.Or(*address, otherwise))
	if err != nil {
		return fmt.Errorf("environment %s: the configured address %q is not host:port", name, *address)
	}
	*address = net.JoinHostPort(host, v)
	return nil
}

func (c *Config) httpDefaults() {
	c.HTTP.Listen = cmp.Or(c.HTTP.Listen, defaultListen)
	if host, err := os.Hostname(); c.Metrics.Instance == "" && err == nil {
		c.Metrics.Instance = host
	}
}

func (c httpConfig) problems() []error {
	var errs []error
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		errs = append(errs, errors.New("http.tls needs both cert and key"))
	}
	for _, o := range c.AllowedOrigins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !hostName.MatchString(u.Host)) {
			errs = append(errs, fmt.Errorf("http.allowed_origins has %q: must be like https://app.example.org, each written out, or * for any", o))
		}
	}
	for _, h := range c.AllowedHosts {
		if err := hostProblem(h); err != nil {
			errs = append(errs, fmt.Errorf("http.allowed_hosts has %q: %w", h, err))
		}
	}
	if _, err := c.proxies(); err != nil {
		errs = append(errs, err)
	}
	if err := publicURLProblem(c.PublicURL); err != nil {
		errs = append(errs, err)
	}
	return append(errs, addressProblems("http.listen", c.Listen)...)
}

// hostName is a name or an address, with or without a port, as clients send it.
var hostName = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?|\[[0-9a-fA-F:.]+\])(:[0-9]+)?$`)

// hostProblem is what is wrong with a name by which the server is called. One that no
// client can send would let nobody in.
func hostProblem(h string) error {
	if h == "*" || hostName.MatchString(h) || net.ParseIP(h) != nil {
		return nil
	}
	if u, err := url.Parse(h); err == nil && hostName.MatchString(u.Host) {
		return fmt.Errorf("must be a name without scheme and path: write %s", u.Hostname())
	}
	if domain, ok := strings.CutPrefix(h, "*."); ok {
		return fmt.Errorf("names are compared whole: write each out, such as app.%s, or * for any", domain)
	}
	return errors.New("must be a name such as kairos.example.org, as clients send it (in ASCII), or * for any")
}

func (c metricsConfig) problems() []error {
	if c.Listen == "" || c.Listen == MetricsOff {
		return nil
	}
	return addressProblems("metrics.listen", c.Listen)
}

func addressProblems(key, address string) []error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return []error{fmt.Errorf("%s is %q: must be host:port, such as %s", key, address, defaultListen)}
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !hostName.MatchString(host) {
		return []error{fmt.Errorf("%s is %q: %q is not a host: write 127.0.0.1, or 0.0.0.0 for every address of this machine", key, address, host)}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return []error{fmt.Errorf("%s is %q: the port must be a number from 0 to %d", key, address, math.MaxUint16)}
	}
	return nil
}

func (c httpConfig) proxies() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range c.TrustedProxies {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			ip, bad := netip.ParseAddr(s)
			if bad != nil {
				return nil, fmt.Errorf("http.trusted_proxies has %q: must be a network such as 10.0.0.0/8", s)
			}
			p = netip.PrefixFrom(ip, ip.BitLen())
		}
		out = append(out, p)
	}
	return out, nil
}

// Access says from where requests are taken on the address.
func (c httpConfig) Access() (rest.Access, error) {
	proxies, err := c.proxies()
	host, _, _ := net.SplitHostPort(c.Listen) // problems has
	a := rest.Access{Local: IsLocal(c.Listen), Hosts: c.AllowedHosts, Origins: c.AllowedOrigins, Proxies: proxies}
	if host != "" {
		a.Hosts = append([]string{host}, a.Hosts...)
	}
	if u, bad := url.Parse(c.PublicURL); bad == nil && u.Host != "" {
		a.Hosts = append(a.Hosts, u.Hostname())
		a.Origins = append(slices.Clone(a.Origins), u.Scheme+"://"+u.Host)
	}
	return a, err
}

// checkAppSpace refuses another space of the built-in protocols: it is part of
// this server's contract and not a setting.
func checkAppSpace(lookup func(string) (string, bool)) error {
	if v, _ := lookup("KAIROS_APP_SPACE_ID"); v != "" && v != access.AppSpace {
		return fmt.Errorf("environment KAIROS_APP_SPACE_ID=%q: the built-in protocols are always in %s; unset it", v, access.AppSpace)
	}
	return nil
}

// Unprotected says how other machines reach the main port; empty: they do not, or callers are
// known and have TLS.
func (c Config) Unprotected() string {
	switch {
	case IsLocal(c.HTTP.Listen):
		return ""
	case !c.Auth.Enabled:
		return withoutAuthentication
	case c.HTTP.TLS.Cert == "" && len(c.HTTP.TrustedProxies) == 0:
		return "with tokens in the clear"
	}
	return ""
}

const withoutAuthentication = "without authentication"

// CheckListen refuses addresses that other machines reach, where nobody has said that
// they may: whoever reaches the server without authentication is let in, and whoever reads
// along without TLS has the tokens.
func (c Config) CheckListen() error {
	if how := c.Unprotected(); how != "" && !c.HTTP.Insecure {
		fix := "Listen on 127.0.0.1, ask for tokens with auth.enabled"
		if c.Auth.Enabled {
			fix = "Set http.tls, or http.trusted_proxies to the proxy that ends TLS"
		}
		return fmt.Errorf("http.listen: listening on %s is refused: other machines reach it %s. %s, or start it with --insecure on a trusted network", c.HTTP.Listen, how, fix)
	}
	if at := c.Metrics.Listen; !c.HTTP.Insecure && at != "" && at != MetricsOff && !IsLocal(at) {
		return fmt.Errorf("metrics.listen: listening on %s is refused: other machines reach it %s. "+
			"Listen on 127.0.0.1, or start it with --insecure on a trusted network", at, withoutAuthentication)
	}
	return nil
}

// checkTLS reads the certificate that the server would serve with.
func (c httpConfig) checkTLS() error {
	if c.TLS.Cert == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key); err != nil {
		return fmt.Errorf("http.tls: %w", err)
	}
	return nil
}

// IsLocal reports whether only this machine reaches the address.
func IsLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
