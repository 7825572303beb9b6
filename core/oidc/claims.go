package oidc

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/principal"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

const (
	// maxSkew is how far the clocks of the provider and of this server may be apart.
	maxSkew = time.Minute
	// maxGroups limits the groups of a person. Entra puts at most as many into a token.
	maxGroups = 200
	// maxShown limits the name of a person in bytes.
	maxShown = 80
)

// claims are the claims of a token by name. Names are compared exactly, as the standard demands.
type claims map[string]json.RawMessage

// peek returns the claims of a token whose signature was not checked.
func peek(token string) (claims, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("it is not a JSON web token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, errors.New("it is not a JSON web token")
	}
	return parse(payload)
}

func parse(payload []byte) (claims, error) {
	var c claims
	if json.Unmarshal(payload, &c) != nil || c == nil {
		return nil, errors.New("it is not a JSON web token")
	}
	return c, nil
}

// read reads a claim, if the token has it.
func (c claims) read(name string, to any) error {
	raw, ok := c[name]
	if !ok || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	if json.Unmarshal(raw, to) != nil {
		return fmt.Errorf("its claim %s does not have the type that the standard demands", name)
	}
	return nil
}

// text returns the first of these claims that is a text with something in it.
func (c claims) text(names ...string) string {
	for _, name := range names {
		var text string
		if c.read(name, &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// moment reads a claim that is a time; zero: the token does not have it.
func (c claims) moment(name string) (time.Time, error) {
	seconds := -1.0
	if err := c.read(name, &seconds); err != nil || seconds < 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(int64(min(seconds, 1<<40) * 1000)), nil
}

// audience reads for whom the token is: a text or a list.
func (c claims) audience() ([]string, error) {
	var one string
	if c.read("aud", &one) == nil && one != "" {
		return []string{one}, nil
	}
	var all []string
	return all, c.read("aud", &all)
}

// current checks the times of the token, and returns when it ends.
func (c claims) current(now time.Time) (time.Time, error) {
	ends, err := c.moment("exp")
	if err != nil {
		return ends, err
	}
	if ends.IsZero() {
		return ends, errors.New("it has no claim exp, and a token must end")
	}
	if ago := now.Sub(ends); ago >= maxSkew {
		return ends, fmt.Errorf("it expired %s ago: get a new one; if it is new, the clock of the provider is behind that of this server", ago.Round(time.Second))
	}
	for _, name := range []string{"nbf", "iat"} {
		from, err := c.moment(name)
		if err != nil {
			return ends, err
		}
		if ahead := from.Sub(now); ahead > maxSkew {
			return ends, fmt.Errorf("its claim %s is %s ahead of the clock of this server, and at most %s are allowed: set both clocks right",
				name, ahead.Round(time.Second), maxSkew)
		}
	}
	return ends, nil
}

// forPrograms refuses tokens that the provider has issued for something else than calls.
func (c claims) forPrograms() error {
	if kind := c.text("typ"); kind != "" && !strings.EqualFold(kind, "Bearer") || c.text("at_hash") != "" || c["events"] != nil {
		return errors.New("it is not an access token: send the access token, and not the one that tells a client who has logged in")
	}
	return nil
}

// identity returns whose the token is.
func (c claims) identity(realm, token string) (Identity, error) {
	var subject string
	if err := c.read("sub", &subject); err != nil {
		return Identity{}, err
	}
	sub, err := segment(subject)
	if err != nil {
		return Identity{}, fmt.Errorf("its claim sub %w", err)
	}
	groups, err := c.groups(realm)
	if err != nil {
		return Identity{}, err
	}
	hash := sha256.Sum256([]byte(token))
	if id := c.text("jti"); id != "" {
		hash = sha256.Sum256([]byte(id))
	}
	return Identity{
		Principal: principal.User(realm, sub), Name: plain.LineWithin(c.text("name", "preferred_username"), maxShown), Groups: groups,
		Application: plain.LineWithin(c.text("azp", "client_id", "appid"), maxName), Credential: "jwt:" + hex.EncodeToString(hash[:8]),
	}, nil
}

// groups reads the groups of the person: by their ids where the token has those, else by name,
// else what Keycloak calls the roles of the realm.
func (c claims) groups(realm string) ([]string, error) {
	var access struct {
		Roles []string `json:"roles"`
	}
	if err := c.read("realm_access", &access); err != nil {
		return nil, err
	}
	names := access.Roles
	for _, claim := range []string{"groups", "group_ids"} {
		var found []string
		if err := c.read(claim, &found); err != nil {
			return nil, err
		}
		if found != nil {
			names = found
		}
	}
	if len(names) > maxGroups {
		return nil, fmt.Errorf("it names %d groups, and at most %d are read: let the provider put fewer of them into its tokens", len(names), maxGroups)
	}
	var out []string
	for _, name := range names {
		ref, err := segment(strings.TrimPrefix(name, "/")) // a path, in Keycloak
		if err != nil {
			return nil, fmt.Errorf("a group that it names %w", err)
		}
		if id := principal.Group(realm, ref); !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out, nil
}
