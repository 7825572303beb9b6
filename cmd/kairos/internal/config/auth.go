package config

import (
	"fmt"
	"strconv"
)

// authConfig says whether callers of the main port have to say who they are.
type authConfig struct {
	// Enabled: a call needs a token. Default false: everybody who reaches the port is the
	// one local principal.
	Enabled bool `yaml:"enabled"`
}

// overlay applies the environment, by the names of the earlier server. Its logins by Keycloak
// are not ours: a server whose people could not log in would seem to be broken.
func (c *authConfig) overlay(lookup func(string) (string, bool)) error {
	v, _ := lookup("AUTH_ENABLED")
	if v != "" {
		on, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("environment AUTH_ENABLED=%q: must be true or false", v)
		}
		c.Enabled = on
	}
	if url, _ := lookup("KEYCLOAK_URL"); url != "" && c.Enabled {
		return fmt.Errorf("environment KEYCLOAK_URL=%q: this server takes the tokens of `kairos token create` alone, and none of Keycloak: unset it", url)
	}
	return nil
}
