package tokens

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/principal"
)

// Wanted is a token that is to be made.
type Wanted struct {
	Owner, Name string
	// Spaces are ids; none: the owner's own space.
	Spaces []string
	// May are the only verbs that it has there, access.Read, Run and Write; none: all.
	May []access.Verb
	// Expires is when the token ends; zero: never.
	Expires time.Time
}

// Limits of a token, in bytes and in spaces.
const (
	maxName   = 80
	maxSpaces = 32
)

var (
	shared = regexp.MustCompile(`^space:[a-z0-9][a-z0-9-]*$`)
	named  = regexp.MustCompile(`^[^[:cntrl:]]+$`)
)

// Create makes a token and returns it with its secret, which is kept nowhere.
func (t *Tokens) Create(ctx context.Context, c access.Caller, in Wanted) (_ Token, _ Secret, err error) {
	doing, err := t.audit.Begin(ctx, c, audit.Act{Action: audit.TokenCreate, Details: map[string]string{"owner": in.Owner}})
	if err != nil {
		return Token{}, "", err
	}
	defer doing.End(&err)
	in.Name = strings.TrimSpace(in.Name)
	if len(in.Spaces) == 0 {
		in.Spaces = []string{in.Owner}
	}
	now := t.clock.Now().UTC().Truncate(time.Millisecond)
	if err := in.check(now); err != nil {
		return Token{}, "", err
	}
	made := Token{ID: t.clock.NewID(), Owner: in.Owner, Name: in.Name, Spaces: slices.Clone(in.Spaces), May: slices.Clone(in.May), Created: now}
	if !in.Expires.IsZero() {
		made.Expires = in.Expires.UTC().Truncate(time.Millisecond)
	}
	doing.On(strings.Join(made.Spaces, " "), made.ID)
	for _, v := range made.May {
		doing.Note("may "+string(v), "yes")
	}
	if !made.Expires.IsZero() {
		doing.Note("expires", made.Expires.Format(time.RFC3339))
	}
	secret := newSecret()
	if err := t.store.CreateToken(ctx, made, hashOf(secret)); err != nil {
		return Token{}, "", fmt.Errorf("keep a new token: %w", err)
	}
	return made, secret, nil
}

func (in Wanted) check(now time.Time) error {
	switch {
	case !principal.IsUser(in.Owner):
		return fault.New(fault.InvalidArgument, "%.80q cannot own a token", in.Owner).
			WithHint("name a person as user:REALM:NAME, such as user:acme:ada; without an identity provider choose any word as the realm")
	case len(in.Name) > maxName || !named.MatchString(in.Name):
		return fault.New(fault.InvalidArgument, "the name of a token must be 1 to %d bytes in one line", maxName).
			WithHint("say what the token is for, such as \"ci\"")
	case len(in.Spaces) > maxSpaces:
		return fault.New(fault.InvalidArgument, "a token works in at most %d spaces, not in %d", maxSpaces, len(in.Spaces))
	case !in.Expires.IsZero() && !in.Expires.After(now):
		return fault.New(fault.InvalidArgument, "the token would have expired already, at %s", in.Expires.UTC().Format(time.RFC3339))
	}
	for _, v := range in.May {
		if v != access.Read && v != access.Run && v != access.Write {
			return fault.New(fault.InvalidArgument, "a token cannot be made for %.80q: it may %s, %s or %s", v, access.Read, access.Run, access.Write)
		}
	}
	for i, space := range in.Spaces {
		switch {
		case slices.Contains(in.Spaces[:i], space):
			return fault.New(fault.InvalidArgument, "space %.80q is named twice", space)
		case space == access.AppSpace:
			return fault.New(fault.InvalidArgument, "every token reads %s, and none writes there: leave it out", space)
		case space != in.Owner && !principal.IsGroup(space) && !shared.MatchString(space):
			return fault.New(fault.InvalidArgument, "a token of %s cannot work in space %.80q", in.Owner, space).
				WithHint("name the owner's own space, %s, a space that you made, such as space:production, or one of a group, such as group:acme:sre", in.Owner)
		}
	}
	return nil
}
