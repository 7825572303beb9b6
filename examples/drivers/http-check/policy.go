package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// policy is the configuration: which hosts may be asked. A protocol names the URL, so
// without it whoever writes protocols could look around in the network of the
// server. Nothing is allowed by default.
type policy struct {
	Hosts        []string `json:"hosts" doc:"hosts that may be asked, such as example.com, or example.com:8443 for another port than 80 and 443"`
	PrivateHosts []string `json:"private_hosts" doc:"the same for hosts whose address is loopback or private"`
}

// parse reads a URL that may be asked; the error says why it may not.
func (p policy) parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.Unwrap(err) // without the URL
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("must be an absolute URL with http or https")
	case u.User != nil:
		return nil, errors.New("must not hold a user name or password")
	case !listed(p.Hosts, u) && !listed(p.PrivateHosts, u):
		return nil, fmt.Errorf("is on host %s, which is not among the hosts that the operator allows", u.Host)
	}
	return u, nil
}

// listed reports whether the list names the host. An entry without a port
// means the usual port of the scheme.
func listed(hosts []string, u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	port := cmp.Or(u.Port(), usual)
	return slices.Contains(hosts, net.JoinHostPort(host, port)) || port == usual && slices.Contains(hosts, host)
}

// dialer looks at the address that is really connected to, whatever name
// server said so: a public name may point at a private address.
func (p policy) dialer(u *url.URL) *net.Dialer {
	private := listed(p.PrivateHosts, u)
	return &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if !private && !isPublic(at.Addr().Unmap()) {
			return fmt.Errorf("host %s has an address that is not public", u.Hostname())
		}
		return nil
	}}
}

// notPublic are ranges that netip has no name for.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
}

func isPublic(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() &&
		!slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(a) })
}
