package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/oidc"
	"github.com/kairos-mcp/kairos/internal/hidden"
)

// authConfig says whether callers of the main port have to say who they are.
type authConfig struct {
	// Asked is auth.enabled, where it is set.
	Asked *bool `yaml:"enabled"`
	// Enabled: a call needs a token. Without auth.enabled that is so where there is an identity
	// provider; else everybody who reaches the port is the one local principal.
	Enabled bool `yaml:"-"`
	// Names: records of runs say what people call the principals who answer on the page.
	Names bool `yaml:"names"`
}

// overlay applies the environment, by the names of the earlier server.
func (c *authConfig) overlay(lookup func(string) (string, bool)) error {
	v, _ := lookup("AUTH_ENABLED")
	if v != "" {
		on, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("environment AUTH_ENABLED=%q: must be true or false", v)
		}
		c.Asked = &on
	}
	return nil
}

// oidcConfig is the identity provider whose tokens count.
type oidcConfig struct {
	// Issuer is the provider's address, as it writes itself.
	Issuer string `yaml:"issuer"`
	// Audience is for whom its tokens must be.
	Audience string `yaml:"audience"`
	// ClientID is this server as the provider knows it, for people who log in with a browser.
	// Empty: they log in by links of the operator alone.
	ClientID string `yaml:"client_id"`
	// ClientSecretFile has the secret of that client. Neither it nor OIDC_CLIENT_SECRET: the
	// client is a public one.
	ClientSecretFile string `yaml:"client_secret_file"`
}

// Client is this server as the provider knows it; without an id people do not log in there.
func (c oidcConfig) Client() (oidc.Client, error) {
	client := oidc.Client{ID: c.ClientID, Secret: hidden.Text(os.Getenv("OIDC_CLIENT_SECRET"))}
	if client.Secret == "" && c.ClientSecretFile != "" {
		b, err := files.Read(c.ClientSecretFile)
		if err != nil {
			return client, fmt.Errorf("read oidc.client_secret_file: %w", err)
		}
		client.Secret = hidden.Text(strings.TrimSpace(string(b)))
	}
	return client, nil
}

// On reports whether there is an identity provider.
func (c oidcConfig) On() bool { return c.Issuer != "" || c.Audience != "" || c.ClientID != "" }

// Names of the earlier server's realm and client where only KEYCLOAK_URL is set.
const (
	earlierRealm  = "kairos-dev"
	earlierClient = "kairos-mcp"
)

// overlay applies the environment, by the names of the earlier server, which knew Keycloak alone.
// It read them where AUTH_ENABLED was true.
func (c *oidcConfig) overlay(lookup func(string) (string, bool), auth authConfig) error {
	read := func(name string) string {
		v, _ := lookup(name)
		return v
	}
	if url := read("KEYCLOAK_URL"); url != "" && auth.Asked != nil && *auth.Asked {
		c.Issuer = strings.TrimRight(url, "/") + "/realms/" + cmp.Or(read("KEYCLOAK_REALM"), earlierRealm)
		c.Audience = cmp.Or(c.Audience, read("KEYCLOAK_CLIENT_ID"), earlierClient)
	}
	audiences := strings.FieldsFunc(read("AUTH_ALLOWED_AUDIENCES"), func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case len(audiences) == 0 || !c.On():
	case len(audiences) > 1:
		return fmt.Errorf("environment AUTH_ALLOWED_AUDIENCES=%q: this server is one audience: name that one, for which the provider issues the tokens of this server alone",
			strings.Join(audiences, ","))
	default:
		c.Audience = audiences[0]
	}
	return nil
}

// identityProblems are what is wrong with how callers are known.
func (c Config) identityProblems() []error {
	o := c.OIDC
	if !o.On() {
		return nil
	}
	var errs []error
	if _, err := oidc.Realm(o.Issuer); err != nil {
		errs = append(errs, fmt.Errorf("oidc.issuer is %q: it %w", o.Issuer, err))
	}
	switch {
	case o.Audience == "":
		errs = append(errs, errors.New("oidc.audience is missing: set it to the audience that the provider writes into tokens for this server, such as its address, https://kairos.example.org"))
	case strings.ContainsFunc(o.Audience, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }):
		errs = append(errs, fmt.Errorf("oidc.audience is %q: must be one word, such as https://kairos.example.org", o.Audience))
	}
	if o.ClientID == "" && o.ClientSecretFile != "" {
		errs = append(errs, errors.New("oidc.client_secret_file is set without oidc.client_id: name the client whose secret it is"))
	}
	if c.Auth.Asked != nil && !*c.Auth.Asked {
		errs = append(errs, errors.New("auth.enabled is false, but oidc names an identity provider: without identity nobody would be asked for its tokens; remove one of them"))
	}
	return errs
}
