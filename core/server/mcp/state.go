package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/seal"
)

// stateLabel separates this use of the key from any other and names the layout
// of sealedState: change it with the layout.
const stateLabel = "kairos requestState 1"

// binding is the call that a requestState belongs to.
type binding struct {
	Principal string `json:"p"`
	Tool      string `json:"t"`
	Arguments []byte `json:"a"` // SHA-256 of the canonical arguments
}

// sealedState names a question on its way through the client. The question
// itself is in the run.
type sealedState struct {
	Binding binding `json:"b"`
	Run     run.ID  `json:"r"`
	Seq     int64   `json:"s"`
	Expires int64   `json:"e"` // Unix nanoseconds
}

// answerKey names a question in inputRequests. It holds the seq, so that an
// answer to an earlier question does not count for a later one.
func answerKey(seq int64) string { return "q" + strconv.FormatInt(seq, 10) }

// errState is the only error a client gets for a requestState that does not open.
var errState = errors.New("requestState is not valid for this call: it was changed, has expired, " +
	"or belongs to another call. Send the call again without requestState")

// sealer seals requestStates and opens them.
type sealer struct {
	seal.Sealer
	ttl   time.Duration
	clock *clock.Clock
}

func newSealer(keys func() ([][32]byte, error), ttl time.Duration, clock *clock.Clock) sealer {
	return sealer{seal.New(stateLabel, keys), ttl, clock}
}

// seal sets the expiry unless st has one: a question asked again does not live longer.
func (s sealer) seal(st sealedState) (string, error) {
	if st.Expires == 0 {
		st.Expires = s.clock.Now().Add(s.ttl).UnixNano()
	}
	plain, err := json.Marshal(st)
	if err != nil {
		return "", fmt.Errorf("encode request state: %w", err)
	}
	text, err := s.Seal(plain)
	if err != nil {
		return "", fmt.Errorf("seal request state: %w", err)
	}
	return text, nil
}

// open returns the state if it was sealed for this very call and is not over.
func (s sealer) open(text string, b binding) (sealedState, error) {
	plain, err := s.Open(text)
	if errors.Is(err, seal.ErrNotSealed) {
		return sealedState{}, errState
	}
	if err != nil {
		return sealedState{}, fmt.Errorf("open request state: %w", err)
	}
	var st sealedState
	if err := json.Unmarshal(plain, &st); err != nil {
		return sealedState{}, errState
	}
	same := st.Binding.Principal == b.Principal && st.Binding.Tool == b.Tool &&
		bytes.Equal(st.Binding.Arguments, b.Arguments)
	if !same || !s.alive(st) {
		return sealedState{}, errState
	}
	return st, nil
}

// alive reports whether the state may still be sent back. One that has longer
// than the whole time was sealed before the clock was set back, and nobody knows
// how old it is.
func (s sealer) alive(st sealedState) bool {
	left := time.Unix(0, st.Expires).Sub(s.clock.Now())
	return left > 0 && left <= s.ttl+clock.Tolerance
}

// argumentsDigest is the same for arguments that mean the same.
func argumentsDigest(arguments json.RawMessage) ([]byte, error) {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	canonical, err := run.Canonical(arguments)
	if err != nil {
		if !json.Valid(arguments) {
			return nil, fmt.Errorf("canonical arguments: %w", err)
		}
		// JSON may hold what has no canonical form, such as half a surrogate
		// pair. Then only the same bytes mean the same.
		canonical = arguments
	}
	sum := sha256.Sum256(canonical)
	return sum[:], nil
}
