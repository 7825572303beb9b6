package principal_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/principal"
)

func TestPeopleAndGroupsHaveOneForm(t *testing.T) {
	for id, want := range map[string][2]bool{
		principal.User("acme", "ada"):         {true, false},
		principal.Group("acme", "sre"):        {false, true},
		"user:id.example.org:ada@example.org": {true, false},
		"group:acme:/sre/on-call":             {false, true},
		"user:ada":                            {},
		"group:sre":                           {},
		"user::ada":                           {},
		"user:acme:":                          {},
		"user:a:b:c":                          {},
		"user:acme:a da":                      {},
		"group:acme:a\nb":                     {},
		"group:ac me:sre":                     {},
		"space:acme:sre":                      {},
		"User:acme:ada":                       {},
		"":                                    {},
		"group:acme:" + strings.Repeat("a", 320-10):  {},
		"user:acme:" + strings.Repeat("a", 320-10):   {true, false},
		"user:acme:" + strings.Repeat("a", 320-10+1): {},
	} {
		if got := [2]bool{principal.IsUser(id), principal.IsGroup(id)}; got != want {
			t.Errorf("%.60q: a person %t, a group %t, want %v", id, got[0], got[1], want)
		}
	}
}

func TestAnIDWithoutARealmIsOfTheOneGiven(t *testing.T) {
	for name, want := range map[string]string{
		"user:ada": "user:acme:ada", "group:sre": "group:acme:sre", "user:other:ada": "user:other:ada", "group:other:sre": "group:other:sre",
		"ada": "ada", "space:production": "space:production", "group::sre": "group::sre", "": "",
	} {
		if got := principal.In("acme", name); got != want {
			t.Errorf("In(acme, %q) = %q, want %q", name, got, want)
		}
	}
}
