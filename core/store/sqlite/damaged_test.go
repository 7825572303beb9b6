package sqlite_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func TestADamagedProtocolHidesNoOtherChange(t *testing.T) {
	s, path := fresh(t)
	must(t, save(s, storetest.NewChain("user:a", "Walrus", "One"), storetest.NewChain("user:a", "Heron", "One")))
	script(t, path, `UPDATE chains SET outline = x'00' WHERE title = 'Walrus'`)
	changes, err := s.Changed(t.Context(), 0, 9)
	if err != nil || len(changes) != 2 {
		t.Fatalf("Changed = %v, %v, want both protocols", changes, err)
	}
	if changes[0].Chain != nil || fault.CodeOf(changes[0].Damage) != fault.StoreFailed {
		t.Errorf("the damaged one is %+v, want what is wrong with it", changes[0])
	}
	if changes[1].Chain == nil || changes[1].Damage != nil {
		t.Errorf("the other one is %+v, want its chain", changes[1])
	}
}
