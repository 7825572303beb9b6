package app

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/server/admin"
)

// OperatorToken returns the token of the server at a URL and where to connect to, if it is a
// server of this user on this machine; empty: it is not.
func OperatorToken(ctx context.Context, c config.Config, at *url.URL) (token, connect string, err error) {
	// A place that was refused is one whose servers are not this user's.
	found, _ := admin.Find(ctx, AdminPlaces(c)...)
	defer func() {
		for _, f := range found {
			f.Client.Close()
		}
	}()
	for _, f := range found {
		if connect, ok := reaches(at, f.HTTP); ok {
			token, err := admin.Token(f.Socket)
			return token, connect, err
		}
	}
	return "", "", nil
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
