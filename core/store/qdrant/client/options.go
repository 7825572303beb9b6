package client

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
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

// DefaultTimeout bounds a request if Options have none.
const DefaultTimeout = 10 * time.Second

const restPort, grpcPort = 6333, 6334

// Options describe a server. Only URL is required.
type Options struct {
	// URL of the server: http://host, https://host:6334, host:6334. The port is that
	// of gRPC; 6333, the port of REST, is replaced by 6334.
	URL string
	// APIKey of the server; optional.
	APIKey Secret
	// CACert is a PEM file with trusted certificate authorities; with it a URL
	// without scheme means TLS. Empty: those of the system.
	CACert string
	// Timeout bounds each request, retries included. The default is DefaultTimeout.
	Timeout time.Duration
}

// Validate reports what is wrong with the options, without asking the server.
func (o Options) Validate() error {
	if _, err := o.endpoint(); err != nil {
		return err
	}
	if o.Timeout < 0 {
		return fmt.Errorf("timeout %s: must not be negative", o.Timeout)
	}
	return nil
}

func (o Options) timeout() time.Duration { return cmp.Or(o.Timeout, DefaultTimeout) }

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
