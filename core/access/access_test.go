package access_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
)

const production = "space:production"

// policy is that of an operator with one shared space.
var policy = access.Policy{
	Spaces:    []access.Members{{Space: production, Run: []string{"group:acme:eng"}, Write: []string{"group:acme:sre", "user:acme:ada"}}},
	Operators: []string{"group:acme:platform"},
}

func person(name string, groups ...string) access.Caller {
	return policy.Admit(access.Caller{Principal: "user:acme:" + name, MemberOf: groups})
}

// mayIn writes down the verbs of a caller in a space.
func mayIn(c access.Caller, space string) string {
	var may []string
	for _, v := range []access.Verb{access.Read, access.Run, access.Write} {
		if c.May(v, space) {
			may = append(may, string(v))
		}
	}
	return strings.Join(may, " ")
}

func TestAPolicySaysWhoRunsAndWhoWrites(t *testing.T) {
	tests := []struct {
		name                     string
		c                        access.Caller
		inProduction, own, inApp string
		reads, writes            []string
		operator                 bool
	}{
		{
			"a stranger", person("eve"), "", "read run write", "read run",
			[]string{"user:acme:eve", access.AppSpace}, []string{"user:acme:eve"}, false,
		},
		{
			"who may run", person("bob", "group:acme:eng"), "read run", "read run write", "read run",
			[]string{"user:acme:bob", "group:acme:eng", production, access.AppSpace}, []string{"user:acme:bob", "group:acme:eng"}, false,
		},
		{
			"who may write, by name", person("ada"), "read write", "read run write", "read run",
			[]string{"user:acme:ada", production, access.AppSpace}, []string{"user:acme:ada", production}, false,
		},
		{
			"a member of two groups", person("kim", "group:acme:eng", "group:acme:sre"), "read run write", "read run write", "read run",
			[]string{"user:acme:kim", "group:acme:eng", "group:acme:sre", production, access.AppSpace},
			[]string{"user:acme:kim", "group:acme:eng", "group:acme:sre", production}, false,
		},
		{
			"an operator", person("lee", "group:acme:platform"), "", "read run write", "read run",
			[]string{"user:acme:lee", "group:acme:platform", access.AppSpace}, []string{"user:acme:lee", "group:acme:platform"}, true,
		},
		{
			"a group of another realm", person("mal", "group:evil:sre"), "", "read run write", "read run",
			[]string{"user:acme:mal", "group:evil:sre", access.AppSpace}, []string{"user:acme:mal", "group:evil:sre"}, false,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			want := []any{tc.inProduction, tc.own, tc.inApp, tc.reads, tc.writes, tc.operator}
			got := []any{
				mayIn(tc.c, production), mayIn(tc.c, tc.c.Space), mayIn(tc.c, access.AppSpace), tc.c.Spaces(), tc.c.Writable(), tc.c.May(access.Operate, ""),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("verbs in production, in its own space, in that of the program, what it reads and writes, and whether it operates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARefusalSaysWhatIsNeeded(t *testing.T) {
	narrowed := person("bob", "group:acme:eng")
	narrowed.Narrowed = new(access.Verbs)
	for _, tc := range []struct {
		name, useCase string
		c             access.Caller
		needs, says   string
	}{
		{"to write", "kairos_mint", person("bob", "group:acme:eng"), "write", "kairos_mint needs the right to write in space:production, and you may not"},
		{"to run", "kairos_begin", person("ada"), "run", "kairos_begin needs the right to run in space:production"},
		{"to operate", "spaces_create", person("ada"), "operate", "spaces_create is the operator's"},
		{"what nobody knows", "kairos_anything", person("ada"), "operate", "kairos_anything is the operator's"},
		{"a token without the right", "kairos_begin", narrowed, "run", "this token was made without it"},
		{"a token of somebody without the right", "kairos_mint", narrowed, "write", "you may not"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.c.Check(tc.useCase, production)
			f := (*fault.Error)(nil)
			if !errors.As(err, &f) || f.Code != fault.Forbidden {
				t.Fatalf("Check = %v, want %s", err, fault.Forbidden)
			}
			if !strings.Contains(f.Message, tc.says) || fmt.Sprint(f.Details["needs"]) != tc.needs {
				t.Errorf("the refusal is %q with %v, want %q and needs %s", f.Message, f.Details, tc.says, tc.needs)
			}
		})
	}
	if err := person("kim", "group:acme:eng").Check("kairos_begin", production); err != nil {
		t.Errorf("Check of what is allowed = %v", err)
	}
}

func TestACallerCanBeNarrowedToOneSpace(t *testing.T) {
	c := person("kim", "group:acme:eng")
	for space, want := range map[string]string{
		"user:acme:kim": "read run write", "group:acme:eng": "read run write", production: "read run", access.AppSpace: "read run",
	} {
		only, ok := c.Only(space)
		if !ok || mayIn(only, space) != want {
			t.Errorf("Only(%s) = %t, may %q there, want %q", space, ok, mayIn(only, space), want)
		}
		for _, other := range []string{"user:acme:kim", "group:acme:eng", production} {
			if other != space && mayIn(only, other) != "" {
				t.Errorf("narrowed to %s it may %s in %s", space, mayIn(only, other), other)
			}
		}
	}
	for _, other := range []string{"user:acme:ada", "space:other", ""} {
		if _, ok := c.Only(other); ok {
			t.Errorf("it is narrowed to %q, which it does not read", other)
		}
	}
}

func TestRunsAreTheirOwnersAndTheOperators(t *testing.T) {
	const adas = "user:acme:ada"
	narrowed, ok := person("lee", "group:acme:platform").Only("user:acme:lee")
	if !ok {
		t.Fatal("an operator is not narrowed to the own space")
	}
	for _, tc := range []struct {
		name                   string
		c                      access.Caller
		adas, shared, unshared bool
	}{
		{"the owner, who reads the shared space", person("ada"), true, true, false},
		{"a reader of the space", person("bob", "group:acme:eng"), false, false, false},
		{"an operator", person("lee", "group:acme:platform"), true, true, true},
		{"an operator in one space", narrowed, false, false, false},
		{"nobody", access.Caller{}, false, false, false},
	} {
		got := []bool{tc.c.Oversees(adas, adas), tc.c.Oversees(adas, production), tc.c.Oversees(adas, "space:left")}
		if diff := cmp.Diff([]bool{tc.adas, tc.shared, tc.unshared}, got); diff != "" {
			t.Errorf("%s oversees runs of ada, in her space, in production, and in one that she has left (-want +got):\n%s", tc.name, diff)
		}
	}
}

// Running and writing include reading, and narrowing never adds, for every policy and token.
func TestVerbsAreConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SampledFrom([]string{"user:r:a", "group:r:x", "group:r:y"})
		names := rapid.SliceOfN(ids, 0, 3)
		p := access.Policy{Operators: names.Draw(t, "operators")}
		spaces := []string{"space:one", "space:two", "user:r:a", access.AppSpace, ""}
		for _, s := range spaces[:rapid.IntRange(0, 2).Draw(t, "spaces")] {
			p.Spaces = append(p.Spaces, access.Members{Space: s, Run: names.Draw(t, "run"), Write: names.Draw(t, "write")})
		}
		groups := names.Draw(t, "groups")
		whole := p.Admit(access.Caller{Principal: "user:r:a", MemberOf: groups})
		narrow := whole
		narrow.Narrowed = &access.Verbs{Run: rapid.Bool().Draw(t, "may run"), Write: rapid.Bool().Draw(t, "may write")}
		for _, s := range spaces {
			for _, v := range []access.Verb{access.Run, access.Write} {
				if whole.May(v, s) && !whole.May(access.Read, s) {
					t.Errorf("may %s in %q and not read", v, s)
				}
				if narrow.May(v, s) && !whole.May(v, s) {
					t.Errorf("narrowing adds %s in %q", v, s)
				}
			}
			if narrow.May(access.Write, access.AppSpace) {
				t.Error("somebody may change the built-in protocols")
			}
		}
	})
}

func TestMembersAreNamedWithOrWithoutTheirRealm(t *testing.T) {
	for name, want := range map[string]string{
		"group:eng": "group:acme:eng", "user:ada": "user:acme:ada", "group:other:eng": "group:other:eng", "user:ada@example.org": "user:acme:ada@example.org",
		"group:/sre/on-call": "group:acme:/sre/on-call",
		"":                   "", "eng": "", "group:": "", "group::eng": "", "group:a:b:c": "", "team:eng": "", "Group:eng": "", "group: eng": "", "group:e\nng": "", "user:" + strings.Repeat("a", 400): "",
	} {
		if got, err := access.Member("acme", name); got != want || (err == nil) != (want != "") {
			t.Errorf("Member(%.40q) = %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestSpacesHaveNamesThatRulesCanQuote(t *testing.T) {
	for name, want := range map[string]string{
		"production": "space:production", "team-red2": "space:team-red2", "": "", "Production": "", "prod uction": "", "a:b": "", "-x": "", "prodüktion": "",
		"kairos-app": "", "personal": "", "local": "", "group-x": "", strings.Repeat("a", 64): "",
	} {
		if id, err := access.SpaceID(name); id != want || (err == nil) != (want != "") {
			t.Errorf("SpaceID(%q) = %q, %v, want %q", name, id, err, want)
		}
	}
}
