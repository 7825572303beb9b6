package acceptances_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestAcceptancesBelongToTheirSpace(t *testing.T) {
	store := sqlitetest.New(t)
	all := acceptances.New(store, nil, nil)
	owner, other := access.Caller{Principal: "me", Space: "user:test:me"}, access.Caller{Principal: "other", Space: "user:test:other"}
	kept, err := all.Record(t.Context(), owner, []acceptances.Acceptance{{Space: owner.Space, Protocol: "digest", Step: 1, Driver: "doer", Effect: driver.EffectReads, By: "me"}})
	if err != nil || len(kept) != 1 || kept[0].ID == "" || kept[0].At.IsZero() {
		t.Fatalf("Record = %v, %v, want the acceptance with its id and time", kept, err)
	}
	if got, err := all.Accepted(t.Context(), other); err != nil || len(got) > 0 {
		t.Errorf("another caller sees %v, %v", got, err)
	}
	if err := all.Revoke(t.Context(), other, kept[0].ID); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("another caller revokes: %v", err)
	}
	if _, err := all.Record(t.Context(), other, kept); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("another caller allows: %v", err)
	}
	if got, err := all.Accepted(t.Context(), owner); err != nil || len(got) != 1 || got[0] != kept[0] {
		t.Errorf("the caller sees %v, %v", got, err)
	}
}
