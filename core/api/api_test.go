package api_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
)

func TestRepliesAreSuccessesOrFailures(t *testing.T) {
	s := api.Spaces.Output()
	var got [][]string
	for _, one := range s.AnyOf {
		got = append(got, one.Required)
	}
	want := [][]string{{"spaces"}, {"message", "next_action", "error_code", "tried"}}
	if diff := cmp.Diff(want, got); diff != "" || s.Required != nil {
		t.Errorf("anyOf (-want +got):\n%s\nrequired = %v, want none beside anyOf", diff, s.Required)
	}
	var names []string
	for _, p := range s.Properties {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	want1 := []string{"error_code", "message", "must_obey", "next_action", "next_call", "next_cursor", "spaces", "tried"}
	if diff := cmp.Diff(want1, names); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
	if api.Mint.Output().Properties.Named("existing_memory") == nil {
		t.Error("a reply with failures of its own does not describe them")
	}
}
