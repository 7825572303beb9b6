package library_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

var member = access.Caller{Principal: "me", Space: "user:test:me", Groups: []string{"group:test:devs", "group:test:ops"}}

func TestMintGoesWhereItIsTold(t *testing.T) {
	two := access.Caller{Principal: "me", Space: "user:test:me", Groups: []string{"group:a:devs", "group:b:devs", "group:b:Ops"}}
	for name, tc := range map[string]struct {
		caller access.Caller
		space  string
		want   string // the space as kairos_spaces calls it
		code   fault.Code
	}{
		"nowhere in particular":             {member, "", "Personal", ""},
		"blank":                             {member, "  ", "Personal", ""},
		"personal":                          {member, "Personal", "Personal", ""},
		"own id":                            {member, "user:test:me", "Personal", ""},
		"a group by its name":               {member, "devs", "Group: devs", ""},
		"a group as it is listed":           {member, "Group: ops", "Group: ops", ""},
		"a group in small letters":          {member, "group: OPS", "Group: ops", ""},
		"a group by its id":                 {member, "group:test:ops", "Group: ops", ""},
		"a group's id behind the word":      {member, "Group: group:test:ops", "Group: ops", ""},
		"one of two groups, in full":        {two, "group:b:devs", "Group: group:b:devs", ""},
		"one of two groups, as listed":      {two, "Group: group:a:devs", "Group: group:a:devs", ""},
		"a group whose name is in capitals": {two, "ops", "Group: Ops", ""},
		"the built-ins":                     {member, "Kairos app", "", fault.SpaceReadOnly},
		"the built-ins in capitals":         {member, "KAIROS APP", "", fault.SpaceReadOnly},
		"the built-ins by id":               {member, access.AppSpace, "", fault.SpaceReadOnly},
		"the built-ins as default":          {access.Caller{Principal: "me", Space: access.AppSpace}, "", "", fault.SpaceReadOnly},
		"the built-ins named as default":    {access.Caller{Principal: "me", Space: access.AppSpace}, "kairos APP", "", fault.SpaceReadOnly},
		"another's space":                   {member, "user:test:you", "", fault.SpaceNotFound},
		"another group":                     {member, "Group: admins", "", fault.SpaceNotFound},
		"a person named like a group":       {member, "Group: me", "", fault.SpaceNotFound},
		"one of two groups of a name":       {two, "devs", "", fault.SpaceNotFound},
		"nobody's":                          {access.Caller{Principal: "me"}, "", "", fault.NoSpace},
		"a member without own space":        {access.Caller{Principal: "me", Groups: []string{"group:test:devs"}}, "", "", fault.NoSpace},
		"its group":                         {access.Caller{Principal: "me", Groups: []string{"group:test:devs"}}, "devs", "Group: devs", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			_, err := w.Mint(t.Context(), tc.caller, api.MintRequest{Document: "# T\n\n## S\n\nx\n", ModelID: "m", Space: tc.space})
			if got := fault.CodeOf(err); got != tc.code {
				t.Fatalf("Mint into %q = %v, want %q", tc.space, err, tc.code)
			}
			spaces, err := w.Spaces(t.Context(), tc.caller, api.SpacesRequest{Titles: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range spaces.Spaces {
				if stored := s.ChainCount > 0 && s.Name != "Kairos app"; stored != (s.Name == tc.want) {
					t.Errorf("space %q holds %d protocols, want it in %q", s.Name, s.ChainCount, tc.want)
				}
			}
		})
	}
	w := newWorld(t, nil)
	_, err := w.Mint(t.Context(), two, api.MintRequest{Document: "# T\n\n## S\n\nx\n", ModelID: "m", Space: "Group: devs"})
	if err == nil || !strings.Contains(err.Error(), "group:a:devs") || !strings.Contains(err.Error(), "group:b:devs") {
		t.Errorf("an ambiguous group: %v, want both ids in full", err)
	}
}

func TestMembersShareAGroupsProtocols(t *testing.T) {
	w := newWorld(t, nil)
	r, err := w.Mint(t.Context(), member, api.MintRequest{Document: threeSteps, ModelID: "m", Space: "devs"})
	if err != nil {
		t.Fatal(err)
	}
	other := access.Caller{Principal: "you", Space: "user:test:you", Groups: []string{"group:test:devs"}}
	if s, err := w.Search(t.Context(), other, api.SearchRequest{Query: "Three Steps", Space: "Group: devs"}); err != nil || s.Choices[0].Role != "match" {
		t.Errorf("a member's search = %+v, %v, want the group's protocol", s, err)
	}
	if s, err := w.Search(t.Context(), other, api.SearchRequest{Query: "Three Steps", Space: "personal"}); err != nil || s.Choices[0].Role == "match" {
		t.Errorf("a search in the own space = %+v, %v, want no match", s, err)
	}
	// space_id is the older name of the argument.
	if s, err := w.Search(t.Context(), other, api.SearchRequest{Query: "Three Steps", SpaceID: "personal"}); err != nil || s.Choices[0].Role == "match" {
		t.Errorf("a search with space_id for the own space finds %+v, %v, want nothing of the group", s.Choices, err)
	}
	if u, err := w.Update(t.Context(), other, api.UpdateRequest{URIs: []string{r.Items[1].URI}, Documents: []string{"## Second\n\nchanged\n"}}); err != nil || u.TotalUpdated != 1 {
		t.Errorf("a member's Update = %+v, %v", u, err)
	}
	if d, err := w.Dump(t.Context(), member, api.DumpRequest{URI: r.Items[1].URI}); err != nil || !strings.Contains(d.Document, "changed") {
		t.Errorf("Dump = %+v, %v, want the other member's text", d, err)
	}
	if d, err := w.Delete(t.Context(), other, api.DeleteRequest{URIs: []string{r.Items[0].URI}}); err != nil || d.TotalDeleted != 1 {
		t.Errorf("a member's Delete = %+v, %v", d, err)
	}
}

func TestSpacesAreListedOnceAndInOrder(t *testing.T) {
	w := newWorld(t, nil)
	c := access.Caller{Principal: "me", Space: "user:test:me", Groups: []string{"group:test:devs", "user:test:me", "group:test:devs", access.AppSpace, ""}}
	r, err := w.Spaces(t.Context(), c, api.SpacesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range r.Spaces {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"Personal", "Group: devs", "Kairos app"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
