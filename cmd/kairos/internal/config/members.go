package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/kairos-mcp/kairos/core/access"
)

// spaceConfig says who may do what in a space, besides the operator. Running and writing
// include reading.
type spaceConfig struct {
	// Run lists who may run its protocols, and Write who may change them: principals and groups.
	Run   []string `yaml:"run"`
	Write []string `yaml:"write"`
}

// Policy is what identified callers may do. Of what is written wrong nothing is granted.
func Policy(c Config) access.Policy {
	p, _ := policyOf(c)
	return p
}

func policyOf(c Config) (access.Policy, []error) {
	p, errs := access.Policy{}, []error(nil)
	members := func(key string, names []string) (ids []string) {
		for _, name := range names {
			id, err := access.Member(RealmOf(c), name)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", key, err))
				continue
			}
			ids = append(ids, id)
		}
		return ids
	}
	p.Operators = members("operators", c.Operators)
	for _, name := range slices.Sorted(maps.Keys(c.Spaces)) {
		id, err := access.SpaceID(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("spaces: %w", err))
			continue
		}
		in := c.Spaces[name]
		if len(in.Run)+len(in.Write) == 0 {
			errs = append(errs, fmt.Errorf("spaces.%s lets nobody run or write: list principals or groups, such as run: [group:eng]", name))
		}
		p.Spaces = append(p.Spaces, access.Members{Space: id, Run: members("spaces."+name+".run", in.Run), Write: members("spaces."+name+".write", in.Write)})
	}
	return p, errs
}

// Identity is a fingerprint of who may call and what they may do. Of two configurations with
// the same one each lets in whom the other does.
func Identity(c Config) (string, error) {
	text, err := json.Marshal(map[string]any{
		"enabled": c.Auth.Enabled, "issuer": c.OIDC.Issuer, "audience": c.OIDC.Audience, "policy": Policy(c),
	})
	if err != nil {
		return "", fmt.Errorf("fingerprint of auth, oidc, spaces and operators: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// membersProblems says what is wrong with the spaces and operators.
func membersProblems(c Config) []error {
	_, errs := policyOf(c)
	if !c.Auth.Enabled {
		for key, set := range map[string]bool{"spaces": len(c.Spaces) > 0, "operators": len(c.Operators) > 0} {
			if set {
				errs = append(errs, fmt.Errorf("%s says what people may do, and this configuration knows nobody: set auth.enabled", key))
			}
		}
	}
	return errs
}
