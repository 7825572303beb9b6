package rest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Logins is behind the pages on which people log in and out. The error of a secret that does
// not count has the code fault.InvalidToken. Methods are called concurrently.
type Logins interface {
	// LoggedIn returns who is logged in with a secret.
	LoggedIn(ctx context.Context, secret string) (access.Caller, error)
	// Linked returns whom a link would log in. It does not use the link up.
	Linked(ctx context.Context, link string) (access.Caller, error)
	// LogIn logs in by a link, once, and returns the secret that a browser shows from then on.
	LogIn(ctx context.Context, link string) (Session, error)
	// LogOut ends the login of a caller.
	LogOut(ctx context.Context, c access.Caller) error
}

// Session is a login that has begun.
type Session struct {
	Caller access.Caller
	Secret string
	// Lasts is how long the browser keeps the secret. It may be longer than the login counts.
	Lasts time.Duration
}

// SignOn is an identity provider at which people log in with a browser. Methods are called
// concurrently.
type SignOn interface {
	// Begin returns the address to which a browser goes to log in, and what it keeps meanwhile:
	// nobody else can read or make it. base is that of this server, as the browser calls it.
	Begin(ctx context.Context, base string) (to, kept string, err error)
	// Finish logs in whom the provider has sent back with an answer. The error of an answer that
	// does not count has the code fault.InvalidToken.
	Finish(ctx context.Context, kept string, answer url.Values) (Session, error)
}

const (
	linkPrefix = "/auth/link/"
	// linkPattern is what logs and metrics see: the path holds a secret.
	linkPattern = linkPrefix + "{secret}"
	logoutPath  = "/auth/logout"
	// flowTime is how long a person may take at the provider, in seconds.
	flowTime = 600
	// returnTime is how long a browser remembers which page asked for the login, in seconds.
	returnTime = 3600
)

// CallbackPath is where an identity provider sends people back, below the address of the server.
const CallbackPath = "/auth/callback"

// LinkPath is the path of a link that logs in.
func LinkPath(secret string) string { return linkPrefix + secret }

//go:embed login.html
var loginHTML string

var loginPage = template.Must(template.New("login").Funcs(template.FuncMap{"line": plain.Line}).Parse(loginHTML))

// shownLogin is what the template shows.
type shownLogin struct {
	Caller access.Caller // no principal: nobody is logged in
	// Needed: the page that was asked for is shown to people who are logged in.
	Needed bool
	// Link: the page asks whether to log in as Caller.
	Link bool
	// Lost: an answer came without a login, and was not recorded.
	Lost bool
	// SignOn: people log in at an identity provider.
	SignOn bool
	// Back is the page that asked for the login, from this one; empty: none did.
	Back string
}

// login is where people log in and out.
type login struct {
	logins  Logins
	signOn  SignOn // nil: there is no identity provider
	network network
	wrong   *rates // bounds the wrong secrets of an address
	begun   *rates // bounds the logins that an address begins at the identity provider
	audit   *audit.Log
	page    *page
}

// required lets people through who are logged in. The others get a page that shows nothing of
// what is here, also where there is nothing.
func (l *login) required(c *call, next handler) {
	jar, ok := l.open(c)
	if !ok {
		return
	}
	caller, err := l.who(c, jar)
	switch fault.CodeOf(err) {
	case fault.Unauthorized, fault.InvalidToken:
		own := ownPage.MatchString(c.r.URL.Path)
		if own && c.r.Method != http.MethodHead {
			jar.put(c.w, returnCookie, c.r.URL.Path, returnTime)
		}
		if own && c.r.Method == http.MethodGet && l.signOn != nil && fault.CodeOf(err) == fault.InvalidToken {
			l.signIn(c, jar) // the login has ended, and the provider says who that is now
			return
		}
		l.show(c, http.StatusUnauthorized, "Log in", shownLogin{Needed: true, SignOn: l.signOn != nil, Lost: c.r.Method == http.MethodPost})
		return
	}
	if err != nil {
		l.refuse(c, err)
		return
	}
	c.caller = caller
	next(c)
}

// open begins a page of the login. It returns how the browser keeps cookies; false: the page
// says why it cannot.
func (l *login) open(c *call) (jar, bool) {
	pageHeaders(c.w.Header())
	j, err := l.jar(c.r)
	if err != nil {
		l.refuse(c, err)
	}
	return j, err == nil
}

// who is logged in. Wrong secrets of an address are bounded; right ones never wait.
func (l *login) who(c *call, j jar) (access.Caller, error) {
	secret, ok := j.take(c.r, sessionCookie)
	if !ok {
		return access.Caller{}, fault.New(fault.Unauthorized, "nobody is logged in")
	}
	caller, err := l.logins.LoggedIn(c.r.Context(), secret)
	return caller, l.counted(c, err)
}

// counted counts the error of a secret that is wrong, and is another if there were too many.
func (l *login) counted(c *call, err error) error {
	if fault.CodeOf(err) != fault.InvalidToken {
		return err
	}
	if wait := l.wrong.take(l.network.remote(c.r)); wait > 0 {
		c.later(wait)
		return fault.New(fault.RateLimited, "Too many wrong links and logins came from this address. Try again in %d s.", seconds(wait))
	}
	return err
}

// refuse says on a page why a login does not work.
func (l *login) refuse(c *call, err error) {
	var f *fault.Error
	if !errors.As(err, &f) {
		l.page.log.ErrorContext(c.r.Context(), "a login failed", "error", err)
		l.page.note(c, http.StatusInternalServerError, "This did not work", "Nothing was changed. The server's log has the cause.")
		return
	}
	title := "This did not work"
	if f.Code == fault.RateLimited {
		title = "Too many attempts"
	}
	l.page.note(c, fault.RowOf(f.Code).Status, title, f.Message)
}

// home is the page of the login: who is logged in, or how to log in. Where there is an identity
// provider it leads there.
func (l *login) home(c *call) {
	jar, ok := l.open(c)
	if !ok {
		return
	}
	caller, err := l.who(c, jar)
	switch fault.CodeOf(err) {
	case fault.Unauthorized, fault.InvalidToken:
		if l.signOn == nil {
			l.show(c, http.StatusOK, "Log in", shownLogin{})
			return
		}
		l.signIn(c, jar)
		return
	}
	if err != nil {
		l.refuse(c, err)
		return
	}
	c.caller = caller
	l.show(c, http.StatusOK, "You are logged in", shownLogin{Caller: caller, Back: jar.back(c.r, "..")})
}

// signIn sends the browser to the identity provider. How often an address begins is bounded.
func (l *login) signIn(c *call, j jar) {
	if wait := l.begun.take(l.network.remote(c.r)); wait > 0 {
		c.later(wait)
		l.refuse(c, fault.New(fault.RateLimited, "Too many logins were begun from this address. Try again in %d s.", seconds(wait)))
		return
	}
	to, kept, err := l.signOn.Begin(c.r.Context(), l.network.base(c.r))
	if err != nil {
		l.refuse(c, err)
		return
	}
	j.put(c.w, flowCookie, kept, flowTime)
	l.page.redirect(c, to)
}

// callback is where the identity provider sends the browser back. The cookie shows that this
// browser has begun: nobody is logged in by a link to here.
func (l *login) callback(c *call) {
	jar, ok := l.open(c)
	if !ok {
		return
	}
	kept, ok := jar.take(c.r, flowCookie)
	if !ok {
		l.page.note(c, http.StatusBadRequest, "This login is over", "It was not begun with this browser, or took longer than ten minutes. Open the page again that asked for the login.")
		return
	}
	jar.put(c.w, flowCookie, "", -1)
	begun, err := l.signOn.Finish(c.r.Context(), kept, c.r.URL.Query())
	if fault.CodeOf(err) == fault.InvalidToken {
		l.page.log.InfoContext(c.r.Context(), "a login at the identity provider was refused", "error", err, "remote", l.network.remote(c.r))
	}
	if err = l.counted(c, err); err != nil {
		if fault.CodeOf(err) == fault.InvalidToken {
			l.audited(c)
		}
		l.refuse(c, err)
		return
	}
	c.caller = begun.Caller
	l.begin(c, jar, begun)
	l.page.redirect(c, l.back(c, jar, "..", "login"))
}

// back is the page that a login leads back to, else another one.
func (l *login) back(c *call, j jar, root, otherwise string) string {
	back := j.back(c.r, root)
	if back == "" {
		return otherwise
	}
	j.put(c.w, returnCookie, "", -1)
	return back
}

// link is the page behind a link. Opening it logs nobody in: programs that preview links open
// it, too.
func (l *login) link(c *call) {
	jar, ok := l.open(c)
	if !ok || !l.page.sameSite(c) {
		return
	}
	link := strings.TrimPrefix(c.r.URL.Path, linkPrefix)
	if c.r.Method == http.MethodPost {
		l.logIn(c, jar, link)
		return
	}
	caller, err := l.logins.Linked(c.r.Context(), link)
	if err != nil {
		l.wrongLink(c, err)
		return
	}
	l.show(c, http.StatusOK, "Log in as "+caller.Name, shownLogin{Caller: caller, Link: true})
}

func (l *login) logIn(c *call, j jar, link string) {
	begun, err := l.logins.LogIn(c.r.Context(), link)
	if err != nil {
		l.wrongLink(c, err)
		return
	}
	c.caller = begun.Caller
	l.begin(c, j, begun)
	l.page.redirect(c, l.back(c, j, "../..", "../login"))
}

// begin gives the browser the secret of a login. The login that it had before ends.
func (l *login) begin(c *call, j jar, begun Session) {
	if before, ok := j.take(c.r, sessionCookie); ok {
		if caller, err := l.logins.LoggedIn(c.r.Context(), before); err == nil {
			err = l.logins.LogOut(c.r.Context(), caller)
			if err != nil {
				l.page.log.WarnContext(c.r.Context(), "an earlier login was not ended", "credential", caller.Credential, "error", err)
			}
		}
	}
	j.put(c.w, sessionCookie, begun.Secret, int(begun.Lasts.Seconds()))
	l.page.log.InfoContext(c.r.Context(), "a person has logged in", "principal", begun.Caller.Principal, "credential", begun.Caller.Credential, "remote", l.network.remote(c.r))
}

// audited has audited that somebody was not logged in.
func (l *login) audited(c *call) {
	l.audit.Unknown(c.r.Context(), l.network.remote(c.r), audit.Act{Action: audit.LoginStart, Object: c.route.pattern}, fault.InvalidToken)
}

func (l *login) wrongLink(c *call, err error) {
	if err = l.counted(c, err); fault.CodeOf(err) != fault.InvalidToken {
		l.refuse(c, err)
		return
	}
	l.page.log.InfoContext(c.r.Context(), "a link that logs in was refused", "remote", l.network.remote(c.r))
	l.audited(c)
	l.page.note(c, http.StatusNotFound, "This link does not log in", "It was used already, is older than ten minutes, or was changed on its way. "+
		"Ask the operator of the server for another one.")
}

// logout ends the login of the browser.
func (l *login) logout(c *call) {
	jar, ok := l.open(c)
	if !ok || !l.page.sameSite(c) {
		return
	}
	caller, err := l.who(c, jar)
	if err == nil {
		c.caller = caller
		err = l.logins.LogOut(c.r.Context(), caller)
	}
	switch fault.CodeOf(err) {
	case fault.Unauthorized, fault.InvalidToken: // it has ended
		err = nil
	}
	if err != nil {
		l.refuse(c, err)
		return
	}
	jar.put(c.w, sessionCookie, "", -1)
	if caller.Principal != "" {
		l.page.log.InfoContext(c.r.Context(), "a person has logged out", "principal", caller.Principal, "credential", caller.Credential)
	}
	l.page.note(c, http.StatusOK, "You are logged out", "Nobody can answer here with this browser until somebody logs in again.")
}

func (l *login) show(c *call, status int, title string, s shownLogin) {
	var body bytes.Buffer
	if err := loginPage.Execute(&body, s); err != nil {
		l.page.log.ErrorContext(c.r.Context(), "the page of the login could not be made", "error", err)
		l.page.note(c, http.StatusInternalServerError, "The page could not be made", "The server's log has the cause.")
		return
	}
	l.page.html(c, status, title, body.Bytes())
}
