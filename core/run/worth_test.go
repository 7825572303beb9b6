package run_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestWorthSaysWhoVouchesAndClaimsNoMore(t *testing.T) {
	const seen, answered, linked, written, reported = driver.ServerObserved, driver.ClientAttested, driver.LinkHolder, driver.ModelGenerated, driver.AgentReported
	for name, tc := range map[string]struct {
		person string
		all    []run.Voucher
		want   string
	}{
		"nothing is solved": {},
		"one step":          {all: []run.Voucher{{Provenance: written}}, want: "1 step written by a model"},
		"as in the tutorial": {
			person: "you", all: []run.Voucher{{Provenance: seen}, {Provenance: seen}, {Provenance: answered}, {Provenance: seen}},
			want: "3 steps seen by KAIROS, 1 answered by you",
		},
		"all there are": {
			all:  []run.Voucher{{Provenance: reported}, {Provenance: written}, {Provenance: linked}, {Provenance: answered}, {Provenance: seen}},
			want: "1 step seen by KAIROS, 1 answered by a person, 1 answered by somebody with the link, 1 written by a model, 1 reported by the agent",
		},
		"a link is not the person at the terminal": {person: "you", all: []run.Voucher{{Provenance: linked}}, want: "1 step answered by somebody with the link"},
		"files that others vouch for": {
			all:  []run.Voucher{{Provenance: reported, Files: seen}, {Provenance: reported, Files: reported}, {Provenance: seen, Files: reported}},
			want: "1 step seen by KAIROS, 2 reported by the agent; files of 1 step seen by KAIROS, 1 reported by the agent",
		},
		"a provenance of another version": {all: []run.Voucher{{Provenance: reported}, {Provenance: "signed"}}, want: "1 step reported by the agent, 1 signed"},
	} {
		if got := run.Worth(tc.all, tc.person); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
