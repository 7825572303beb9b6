package qdrant

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/clock"
)

// Secret is text that is not printed.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(set)"
}

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret, in JSON too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Defaults of Options.
const (
	DefaultCollection = "kairos"
	DefaultTimeout    = 10 * time.Second
	defaultSweepAge   = 10 * time.Minute

	restPort = 6333
	grpcPort = 6334
)

// Options describe the server and how it is used. Only URL is required.
type Options struct {
	// URL of the server: http://host, https://host:6334, host:6334. The port is that
	// of gRPC; 6333, the port of REST, is replaced by 6334.
	URL string
	// APIKey of the server; optional.
	APIKey Secret
	// CACert is a PEM file with trusted certificate authorities; with it a URL
	// without scheme means TLS. Empty: those of the system.
	CACert string
	// Collection is the alias of the protocols and the prefix of the names of all
	// collections. Empty: "kairos".
	Collection string
	// Timeout bounds each request, retries included; zero: 10 s.
	Timeout time.Duration
	// NoRescore compares only compressed vectors, which is faster and less exact.
	NoRescore bool
	// SweepAge is how old the remains of an interrupted save must be to be swept;
	// zero: 10 minutes. It must exceed the duration of any save.
	SweepAge time.Duration
	// Clock provides the recorded times and the end of reservations; nil: the clock
	// of this machine.
	Clock *clock.Clock
}

var collectionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,120}$`)

// Validate reports what is wrong with the options, without asking the server.
func (o Options) Validate() error {
	if _, err := o.endpoint(); err != nil {
		return err
	}
	if o.Collection != "" && !collectionName.MatchString(o.Collection) {
		return fmt.Errorf("collection %q: must be 1 to 120 letters, digits, - and _", o.Collection)
	}
	if o.Timeout < 0 {
		return fmt.Errorf("timeout %s: must not be negative", o.Timeout)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Collection == "" {
		o.Collection = DefaultCollection
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.SweepAge == 0 {
		o.SweepAge = defaultSweepAge
	}
	return o
}

// endpoint is the gRPC address of the server.
type endpoint struct {
	host string
	port int
	tls  bool
}

func (e endpoint) String() string { return net.JoinHostPort(e.host, strconv.Itoa(e.port)) }

func (e endpoint) loopback() bool {
	ip := net.ParseIP(e.host)
	return e.host == "localhost" || ip != nil && ip.IsLoopback()
}

func (o Options) endpoint() (endpoint, error) {
	text := o.URL
	if !strings.Contains(text, "://") {
		scheme := "http://"
		if o.CACert != "" {
			scheme = "https://"
		}
		text = scheme + text
	}
	u, err := url.Parse(text)
	// The text may contain a password, so it is not quoted.
	if err != nil || u.Hostname() == "" {
		return endpoint{}, fmt.Errorf("the URL of Qdrant is not one: expected something like http://localhost:6334")
	}
	if u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return endpoint{}, fmt.Errorf("the URL of Qdrant must have a host and a port, and nothing else")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return endpoint{}, fmt.Errorf("the URL of Qdrant begins with %q: must be http or https", u.Scheme)
	}
	e := endpoint{host: u.Hostname(), port: grpcPort, tls: u.Scheme == "https"}
	if p := u.Port(); p != "" {
		if e.port, err = strconv.Atoi(p); err != nil || e.port < 1 || e.port > 65535 {
			return endpoint{}, fmt.Errorf("the URL of Qdrant has port %q: must be 1 to 65535", p)
		}
	}
	if e.port == restPort {
		e.port = grpcPort
	}
	return e, nil
}

// tlsConfig configures the authentication of the server.
func (o Options) tlsConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CACert == "" {
		return c, nil
	}
	pem, err := os.ReadFile(o.CACert)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities for Qdrant: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", o.CACert)
	}
	return c, nil
}
