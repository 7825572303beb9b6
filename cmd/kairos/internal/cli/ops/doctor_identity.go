package ops

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/oidc"
	"github.com/kairos-mcp/kairos/core/tokens"
)

// soon is how long before its end doctor warns of a token or a certificate, and warnedTokens of
// how many tokens.
const (
	soon         = 14 * 24 * time.Hour
	warnedTokens = 5
)

// identity looks at how callers are known: the identity provider, and the address at which they
// reach the server.
func (r *doctorReport) identity(ctx context.Context, c config.Config) {
	if !c.Auth.Enabled {
		return
	}
	if c.OIDC.On() {
		examineProvider(ctx, r, c)
	}
	examineAddress(r, c, time.Now())
}

// examineProvider asks the identity provider as a server does.
func examineProvider(ctx context.Context, r *doctorReport, c config.Config) {
	const name = "provider"
	issuer := c.OIDC.Issuer
	found, err := oidc.Examine(ctx, issuer)
	if err != nil {
		r.check(name, issuer, "let this machine reach it, and set oidc.issuer to what it writes as issuer in "+
			strings.TrimRight(issuer, "/")+"/.well-known/openid-configuration, to the last slash", err)
		return
	}
	people := "people log in there as client " + c.OIDC.ClientID
	if c.OIDC.ClientID == "" {
		people = "people log in by links of the operator: oidc.client_id is not set"
	}
	var problems []finding
	if found.Apart() {
		side := "ahead of"
		if found.Skew < 0 {
			side = "behind"
		}
		problems = append(problems, finding{fmt.Sprintf("its clock is %s %s this machine's: tokens do not count", found.Skew.Abs(), side), "set both clocks by NTP"})
	}
	if _, err := c.OIDC.Client(); err != nil {
		problems = append(problems, finding{err.Error(), "put the secret there that the provider has for client " + c.OIDC.ClientID})
	}
	r.note(name, fmt.Sprintf("%s: %s; tokens must be for %s; %s", issuer, output.Count(found.Keys, "key"), c.OIDC.Audience, people), problems...)
	if !found.Dated {
		r.warn("its replies have no time, so the clocks were not compared", "")
	}
	if at := strings.TrimRight(c.HTTP.PublicURL, "/"); strings.Contains(c.OIDC.Audience, "://") && at != "" && at != c.OIDC.Audience {
		r.warn(fmt.Sprintf("clients reach the server at %s and ask for a token for %s: those that compare the two refuse the server", at, c.OIDC.Audience),
			"set oidc.audience and http.public_url to the same address, and let the provider issue tokens for it")
	}
}

// examineAddress looks whether tokens and logins that come over the network are encrypted.
func examineAddress(r *doctorReport, c config.Config, now time.Time) {
	const name = "public address"
	at, local := c.HTTP.PublicURL, config.IsLocal(c.HTTP.Listen)
	u, err := url.Parse(at)
	switch {
	case err != nil: // which is an error of the configuration
	case at == "" && local:
		r.note(name, "none: only this machine reaches "+c.HTTP.Listen)
	case at == "":
		r.note(name, "http.public_url is not set")
		r.warn("clients and browsers are sent to the address by which they call, and links of logins begin with the one of this machine", "set http.public_url to the address of the server")
	case u.Scheme == "http" && !config.IsLocal(net.JoinHostPort(u.Hostname(), "0")):
		r.note(name, at, finding{"tokens cross the network in the clear, and nobody can log in", "let a proxy end TLS, or set http.tls, and begin http.public_url with https://"})
	case u.Scheme == "https" && c.HTTP.TLS.Cert == "" && len(c.HTTP.TrustedProxies) == 0:
		r.note(name, at, finding{"the server has no certificate and believes no proxy that a request came by https: nobody can log in", "set http.trusted_proxies to the address of the proxy that ends TLS, or http.tls"})
	case c.HTTP.TLS.Cert != "":
		examineCertificate(r, name, c, u, now)
	default:
		r.note(name, at)
	}
}

// examineCertificate looks at the certificate of the main port.
func examineCertificate(r *doctorReport, name string, c config.Config, at *url.URL, now time.Time) {
	const fix = "put a current certificate for that name there, with those that its issuer adds; a running server takes it up"
	pair, err := tls.LoadX509KeyPair(c.HTTP.TLS.Cert, c.HTTP.TLS.Key)
	if err == nil && at.Scheme == "https" {
		err = pair.Leaf.VerifyHostname(at.Hostname())
	}
	if err == nil && now.After(pair.Leaf.NotAfter) {
		err = fmt.Errorf("it expired on %s", output.Moment(pair.Leaf.NotAfter))
	}
	if err != nil {
		r.check(name, at.String(), fix, fmt.Errorf("certificate %s: %w", c.HTTP.TLS.Cert, err))
		return
	}
	r.note(name, at.String())
	if pair.Leaf.NotAfter.Sub(now) < soon {
		r.warn(fmt.Sprintf("certificate %s expires on %s", c.HTTP.TLS.Cert, output.Moment(pair.Leaf.NotAfter)), fix)
	}
}

// examineTokens looks at the tokens of the server: which end soon.
func examineTokens(ctx context.Context, r *doctorReport, a *app.App, now time.Time) {
	const name = "tokens"
	all, err := a.Tokens.List(ctx)
	if err != nil {
		r.check(name, "", "", err)
		return
	}
	all = slices.DeleteFunc(all, func(t tokens.Token) bool { return t.Ended(now) != "" })
	if len(all) == 0 && !a.Config.Auth.Enabled {
		return
	}
	r.note(name, output.Count(len(all), "token")+" of this server")
	if !a.Config.Auth.Enabled {
		r.warn("they protect nothing: whoever reaches the port needs no token", "set auth.enabled to true")
	}
	ending := slices.DeleteFunc(all, func(t tokens.Token) bool { return t.Expires.IsZero() || t.Expires.Sub(now) >= soon })
	slices.SortFunc(ending, func(a, b tokens.Token) int { return a.Expires.Compare(b.Expires) })
	for _, t := range ending[:min(len(ending), warnedTokens)] {
		r.warn(fmt.Sprintf("%s of %s, %s, expires on %s", t.ID[len(t.ID)-8:], t.Owner, t.Name, output.Moment(t.Expires)),
			"make its successor with `kairos token create`, and give it to what uses this one")
	}
	if more := len(ending) - warnedTokens; more > 0 {
		r.warn(fmt.Sprintf("%d more expire within %d days", more, soon/(24*time.Hour)), "see `kairos token list`")
	}
}
