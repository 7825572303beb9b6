package app

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

// ServerAt returns a client for the operations of the server at a URL, if it is a server of
// this user on this machine; false: it is not. The caller closes the client.
func ServerAt(ctx context.Context, c config.Config, at *url.URL) (own socket.Client, ok bool) {
	// A place that was refused is one whose servers are not this user's.
	found, _ := socket.Find(ctx, AdminPlaces(c)...)
	for _, f := range found {
		if ok || !reaches(at, f.HTTP) {
			f.Close()
			continue
		}
		own, ok = f.Client, true
	}
	return own, ok
}

// reaches reports whether a URL is that of the server that listens at an address.
func reaches(at *url.URL, listens string) bool {
	listener, err := netip.ParseAddrPort(listens)
	if err != nil {
		return false
	}
	usual := map[string]string{"http": "80", "https": "443"}[at.Scheme]
	own := listener.Addr().Unmap()
	name, port := at.Hostname(), cmp.Or(at.Port(), usual)
	if port != strconv.Itoa(int(listener.Port())) {
		return false
	}
	ip, err := netip.ParseAddr(name)
	local := name == "localhost" || err == nil && ip.Unmap().IsLoopback()
	return own.IsUnspecified() && local || own.IsLoopback() && name == "localhost" || err == nil && ip.Unmap() == own
}
