package run_test

import (
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestWorthSaysWhoVouchesAndClaimsNoMore(t *testing.T) {
	const seen, answered, linked, written, reported = driver.ServerObserved, driver.ClientAttested, driver.LinkHolder, driver.ModelGenerated, driver.AgentReported
	for name, tc := range map[string]struct {
		left int
		all  []run.Voucher
		want string
	}{
		"nothing is solved": {left: 3, want: "none of 3 steps is proved"},
		"one step":          {all: []run.Voucher{{Provenance: written}}, want: "1 step rests on a model's word"},
		"as in the tutorial": {
			all:  []run.Voucher{{Provenance: seen}, {Provenance: seen}, {Provenance: answered}, {Provenance: seen}},
			want: "1 of 4 steps answered by a person, 3 seen by KAIROS",
		},
		"all there are": {
			left: 1,
			all:  []run.Voucher{{Provenance: reported}, {Provenance: seen, Failed: true}, {Provenance: written}, {Provenance: linked}, {Provenance: answered}, {}, {Provenance: seen}},
			want: "1 of 8 steps is not proved, 1 proves nothing, 1 failed and was not required, 1 rests on the agent's word, 1 rests on a model's word, " +
				"1 answered by somebody with the link, 1 answered by a person, 1 seen by KAIROS",
		},
		"two of one kind": {all: []run.Voucher{{Provenance: reported}, {Provenance: reported}}, want: "both steps rest on the agent's word"},
		"all of one kind": {all: []run.Voucher{{Provenance: seen}, {Provenance: seen}, {Provenance: seen}}, want: "all 3 steps seen by KAIROS"},
		"files that others vouch for": {
			all:  []run.Voucher{{Provenance: reported, Files: seen}, {Provenance: reported, Files: reported}, {Provenance: seen, Files: reported}},
			want: "2 of 3 steps rest on the agent's word, 1 seen by KAIROS; files of 1 step reported by the agent, 1 seen by KAIROS",
		},
		"a client that answered itself": {
			all:  []run.Voucher{{Provenance: answered, Answered: &run.Delay{After: 8 * time.Millisecond}}, {Provenance: seen}},
			want: "1 of 2 steps answered by the client in 8 ms, 1 seen by KAIROS",
		},
		"a client that approved itself": {
			all:  []run.Voucher{{Provenance: seen, Approved: &run.Delay{After: 8 * time.Millisecond}}, {Provenance: seen, Approved: &run.Delay{After: 9 * time.Millisecond}}},
			want: "both steps seen by KAIROS; approval of 2 steps answered by the client in at most 9 ms",
		},
		"a provenance of another version": {all: []run.Voucher{{Provenance: reported}, {Provenance: "signed"}}, want: "1 of 2 steps signed, 1 rests on the agent's word"},
	} {
		if got := run.Worth(len(tc.all)+tc.left, tc.all); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
