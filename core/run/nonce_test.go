package run_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/run"
)

func TestANonceNamesItsRun(t *testing.T) {
	const id = run.ID("01a20bc6-ac03-774a-a552-bce36dae77ad")
	nonce := run.Nonce(id, [12]byte{1, 2, 3})
	if len(nonce) != 56 {
		t.Errorf("Nonce = %q, want 56 digits", nonce)
	}
	if got, ok := run.OfNonce(nonce); !ok || got != id {
		t.Errorf("OfNonce(%q) = %q, %t, want %q", nonce, got, ok, id)
	}
	for _, other := range []string{"", "0123456789abcdef0123456789abcdef", nonce[:54], nonce + "00", "g" + nonce[1:], run.Nonce("not a UUID", [12]byte{})} {
		if got, ok := run.OfNonce(other); ok {
			t.Errorf("OfNonce(%q) = %q, want none", other, got)
		}
	}
}
