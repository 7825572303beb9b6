package app

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/logins"
	"github.com/kairos-mcp/kairos/core/oidc"
	"github.com/kairos-mcp/kairos/core/principal"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

// browsers are the people who are logged in with one.
type browsers struct {
	logins *logins.Logins
	policy access.Policy
}

// sessionPrefix begins the Credential of a person who is logged in.
const sessionPrefix = "session:"

// person is the caller that a login makes.
func (b browsers) person(l logins.Login) access.Caller {
	return b.policy.Admit(access.Caller{
		Principal: l.Principal, Name: l.Name, MemberOf: l.Groups, Method: access.ByLogin, Credential: sessionPrefix + l.ID,
	})
}

// LoggedIn implements rest.Logins.
func (b browsers) LoggedIn(ctx context.Context, secret string) (access.Caller, error) {
	l, err := b.logins.Verify(ctx, logins.Secret(secret))
	return b.person(l), err
}

// Linked implements rest.Logins.
func (b browsers) Linked(ctx context.Context, link string) (access.Caller, error) {
	l, err := b.logins.Linked(ctx, logins.Secret(link))
	return b.person(l), err
}

// LogIn implements rest.Logins.
func (b browsers) LogIn(ctx context.Context, link string) (rest.Session, error) {
	return b.begun(b.logins.Begin(ctx, logins.Secret(link)))
}

func (b browsers) begun(l logins.Login, secret logins.Secret, err error) (rest.Session, error) {
	return rest.Session{Caller: b.person(l), Secret: secret.Reveal(), Lasts: logins.Time}, err
}

// LogOut implements rest.Logins.
func (b browsers) LogOut(ctx context.Context, c access.Caller) error {
	_, err := b.logins.Revoke(ctx, c, strings.TrimPrefix(c.Credential, sessionPrefix))
	return err
}

// pagesOf are the logins of the main port; nil: nobody has to log in.
func pagesOf(a *App) rest.Logins {
	if !a.Config.Auth.Enabled {
		return nil
	}
	return browsersOf(a)
}

func browsersOf(a *App) browsers { return browsers{a.Logins, config.Policy(a.Config)} }

// loginLink makes a link with which a person logs in.
func (a *App) loginLink(ctx context.Context, in operations.LoginLinkRequest) (operations.LoginLinkReply, error) {
	base := strings.TrimRight(a.page.at.String(), "/")
	switch {
	case !a.Config.Auth.Enabled:
		return operations.LoginLinkReply{}, fault.New(fault.Conflict, "nobody has to log in to this server").WithHint("set auth.enabled to true and restart the server")
	case base == "":
		return operations.LoginLinkReply{}, fault.New(fault.Conflict, "this server serves no pages").WithHint("start it with --http")
	}
	p := personNamed(in)
	if realm, err := oidc.Realm(a.Config.OIDC.Issuer); err == nil && strings.HasPrefix(p.Principal, principal.User(realm, "")) {
		return operations.LoginLinkReply{}, fault.New(fault.InvalidArgument, "%.80s is a person of the identity provider %s, who logs in there", p.Principal, a.Config.OIDC.Issuer).
			WithHint("name somebody whom only this server knows, such as ada for user:local:ada")
	}
	if p.Principal == localSpace { // whose name is that of a space that is not the person's
		return operations.LoginLinkReply{}, fault.New(fault.InvalidArgument, "%s is the space of this machine's operator, and nobody logs in as it", localSpace).WithHint("choose another name")
	}
	made, link, err := a.Logins.Link(ctx, a.Caller(), p)
	if err != nil {
		return operations.LoginLinkReply{}, err
	}
	a.log.InfoContext(ctx, "a link that logs in was made", "login", made.ID, "principal", made.Principal, "groups", made.Groups, "expires", made.Expires.Format(time.RFC3339))
	return operations.LoginLinkReply{
		ID: made.ID, Principal: made.Principal, Name: made.Name, Groups: made.Groups, Expires: made.Expires, URL: base + rest.LinkPath(link.Reveal()),
	}, nil
}

// personNamed is the person that the operator names. One without a realm is of config.LocalRealm,
// and a group without one of the realm of the person.
func personNamed(in operations.LoginLinkRequest) logins.Person {
	id := in.As
	if !strings.HasPrefix(id, "user:") {
		id = principal.User(config.LocalRealm, id)
	}
	realm, name, _ := strings.Cut(strings.TrimPrefix(id, "user:"), ":")
	p := logins.Person{Principal: id, Name: cmp.Or(in.Name, name)}
	for _, g := range in.Groups {
		p.Groups = append(p.Groups, principal.In(realm, "group:"+strings.TrimPrefix(g, "group:")))
	}
	return p
}
