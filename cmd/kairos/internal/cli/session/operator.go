package session

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/core/api/client"
	"github.com/kairos-mcp/kairos/core/server/admin"
)

// operatorTime bounds a call of an operator, and dialTime its connection.
const (
	operatorTime = 5 * time.Minute
	dialTime     = 10 * time.Second
)

// operator returns a client for calls of operators, with the token of the server if it is
// one of this user on this machine; nil: it is not.
func (s Session) operator(ctx context.Context, address string) (*client.Client, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, nil // the call says what is wrong with the address
	}
	c, err := s.Load()
	if err != nil {
		c = s.Salvage() // the server has its own configuration
	}
	// A place that was refused is one whose servers are not this user's.
	found, _ := admin.Find(ctx, app.AdminPlaces(c)...)
	defer func() {
		for _, f := range found {
			f.Client.Close()
		}
	}()
	for _, f := range found {
		to, ok := reaches(at, f.HTTP)
		if !ok {
			continue
		}
		token, err := admin.Token(f.Socket)
		if err != nil {
			return nil, err
		}
		return client.New(address, client.Token(token), onlyTo(to))
	}
	return nil, nil
}

// reaches reports whether a URL is that of the server that listens at an address, and
// returns where to connect to.
func reaches(at *url.URL, listens string) (to string, ok bool) {
	listener, err := netip.ParseAddrPort(listens)
	if err != nil {
		return "", false
	}
	usual := map[string]string{"http": "80", "https": "443"}[at.Scheme]
	own := netip.AddrPortFrom(listener.Addr().Unmap(), listener.Port())
	name, port := at.Hostname(), cmp.Or(at.Port(), usual)
	if _, number, _ := net.SplitHostPort(own.String()); number != port {
		return "", false
	}
	ip, err := netip.ParseAddr(name)
	local := name == "localhost" || err == nil && ip.Unmap().IsLoopback()
	switch {
	case own.Addr().IsUnspecified() && local:
		return net.JoinHostPort("127.0.0.1", port), true
	case own.Addr().IsLoopback() && name == "localhost", err == nil && ip.Unmap() == own.Addr():
		return own.String(), true
	}
	return "", false
}

// onlyTo connects to one address, whatever a name resolves to and whichever proxy is
// configured: the token is for the server that was found there.
func onlyTo(address string) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy, t.DisableKeepAlives = nil, true
	t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTime}).DialContext(ctx, network, address)
	}
	return &http.Client{Transport: t, Timeout: operatorTime}
}
