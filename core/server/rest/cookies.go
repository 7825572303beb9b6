package rest

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/kairos-mcp/kairos/core/fault"
)

// ownPage are the pages that a login leads back to. No address of another site is one.
var ownPage = regexp.MustCompile(`^/approve/[A-Za-z0-9-]{1,64}/[A-Za-z0-9_-]{1,128}$`)

// Names of the cookies. jar puts a prefix before them where the connection allows it.
const (
	sessionCookie = "kairos"
	returnCookie  = "kairos-return"
	flowCookie    = "kairos-flow"
)

// jar keeps cookies by the rules that fit a connection.
type jar struct {
	// secure: by TLS. Browsers then keep each cookie to this host (__Host-).
	secure bool
}

// jar returns how the browser of a request keeps cookies. Without TLS nobody can log in but on
// the server's own machine.
func (l *login) jar(r *http.Request) (jar, error) {
	forwarded := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("X-Forwarded-Proto") != "" || r.Header.Get("Forwarded") != ""
	switch {
	case strings.HasPrefix(l.network.base(r), "https:"):
		return jar{secure: true}, nil
	case loopback(hostname(r.Host)) && !forwarded:
		return jar{}, nil
	}
	return jar{}, fault.New(fault.Forbidden, "A login would cross the network in the clear. Open this page with https. "+
		"If you did, the operator of the server has to set http.trusted_proxies to the proxy that ends TLS.")
}

func (j jar) name(cookie string) string {
	if j.secure {
		return "__Host-" + cookie
	}
	return cookie
}

// put gives the browser a cookie for some seconds; less than none: takes it away.
func (j jar) put(w http.ResponseWriter, cookie, value string, lasts int) {
	http.SetCookie(w, &http.Cookie{
		Name: j.name(cookie), Value: value, Path: "/", MaxAge: lasts, Secure: j.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// take returns the cookie of a request. Two of one name are none: nobody knows which is ours.
func (j jar) take(r *http.Request, cookie string) (value string, ok bool) {
	found := r.CookiesNamed(j.name(cookie))
	if len(found) != 1 {
		return "", false
	}
	return found[0].Value, found[0].Value != ""
}

// back is the page that asked for the login, from one that is so many levels below the root:
// relative, for a proxy that serves us below a path of its own. Empty: none did.
func (j jar) back(r *http.Request, root string) string {
	page, _ := j.take(r, returnCookie)
	if !ownPage.MatchString(page) {
		return ""
	}
	return root + page
}
