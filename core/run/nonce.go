package run

import (
	"encoding/hex"

	"github.com/google/uuid"
)

// nonceRandom is how many bytes of a nonce nobody can predict.
const nonceRandom = 12

// Nonce identifies a step of a run to those who submit its evidence: random bytes,
// then the id of the run, in hexadecimal. Clients treat it as opaque. An id that
// is not a UUID cannot be found again from its nonces.
func Nonce(id ID, random [nonceRandom]byte) string {
	u, err := uuid.Parse(string(id))
	if err != nil {
		return hex.EncodeToString(random[:])
	}
	return hex.EncodeToString(append(random[:], u[:]...))
}

// OfNonce returns the run that a nonce names; whether it is or was a nonce of
// that run, only the run can tell. Nonces of earlier versions name none.
func OfNonce(nonce string) (ID, bool) {
	b, err := hex.DecodeString(nonce)
	if err != nil || len(b) != nonceRandom+len(uuid.UUID{}) {
		return "", false
	}
	return ID(uuid.UUID(b[nonceRandom:]).String()), true
}
