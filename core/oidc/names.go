package oidc

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// reserved is the realm of those that this server knows itself.
const reserved = "local"

// wellKnown is where issuers have their metadata.
const wellKnown = "/.well-known/openid-configuration"

var realms = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// Realm returns the word by which the principals of an issuer are told from those of others: the
// last segment of its address behind /realms/, else its host. The error says what is wrong with
// the address.
func Realm(issuer string) (string, error) {
	u, err := url.Parse(issuer)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("must be the address of an identity provider, such as https://id.example/realms/acme, without query and fragment")
	case strings.Contains(u.Path, wellKnown):
		return "", errors.New("must be the issuer, and not the address of its metadata: write it without " + wellKnown)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "", errors.New("must begin with https://: whoever changes what comes from the provider could be anybody. http:// is for a provider on this machine")
	}
	realm := strings.ToLower(u.Hostname())
	if i := strings.LastIndex(u.Path, "/realms/"); i >= 0 {
		rest := strings.Trim(u.Path[i:], "/")
		realm = rest[strings.LastIndex(rest, "/")+1:]
	}
	if !realms.MatchString(realm) {
		return "", fmt.Errorf("gives %q as the realm of its people, which must be letters, digits and . _ -", realm)
	}
	if realm == reserved {
		return "", fmt.Errorf("gives %q as the realm of its people, which is that of the operator of this machine: use another realm", realm)
	}
	return realm, nil
}

// loopback reports whether a host means this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// maxName limits a subject and the name of a group in bytes.
const maxName = 255

// segment returns a name as the last segment of a principal or a group: spaces, colons,
// percent signs and characters that do not show are percent-encoded, so that no two names
// give the same.
func segment(name string) (string, error) {
	if name == "" || len(name) > maxName {
		return "", fmt.Errorf("has %d bytes, and must have 1 to %d", len(name), maxName)
	}
	var b strings.Builder
	for _, c := range []byte(name) {
		if c <= ' ' || c == ':' || c == '%' || c > '~' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}
