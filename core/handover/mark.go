package handover

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// What Check finds wrong.
var (
	ErrOtherServer = errors.New("another server wrote it, or this one before its key file was replaced")
	ErrChanged     = errors.New("it was changed after the server wrote it")
	ErrOtherOwner  = errors.New("the run is somebody else's")
)

// Mark is how a server, and whoever has its key, tells its own blocks.
type Mark struct {
	key    []byte
	server string
}

// NewMark derives the mark from a key that all processes of a server share.
func NewMark(secret [32]byte) (Mark, error) {
	key, err := hkdf.Key(sha256.New, secret[:], nil, "kairos session handover", sha256.Size)
	if err != nil {
		return Mark{}, fmt.Errorf("derive the key of the handover file: %w", err)
	}
	m := Mark{key: key}
	m.server = m.digest("server", "", 8)
	return m, nil
}

// digest is what only who has the key can make of a text.
func (m Mark) digest(purpose, text string, bytes int) string {
	mac := hmac.New(sha256.New, m.key)
	mac.Write([]byte(purpose + "\x00" + text))
	return hex.EncodeToString(mac.Sum(nil)[:bytes])
}

// sign makes the block this server's.
func (m Mark) sign(b Block, principal string) Block {
	b.Server, b.Owner = m.server, m.digest("owner", principal, 8)
	b.sealed = b.text()
	b.seal = m.digest("seal", b.sealed, 16)
	return b
}

// own reports whether this server wrote the block as it is.
func (m Mark) own(b Block) bool {
	return b.Server == m.server && hmac.Equal([]byte(b.seal), []byte(m.digest("seal", b.sealed, 16)))
}

// Check says why the block is not to be relied on: ErrOtherServer, ErrChanged or
// ErrOtherOwner. One that passes was true when it was written.
func (m Mark) Check(b Block, principal string) error {
	switch {
	case b.Server != m.server:
		return ErrOtherServer
	case !m.own(b):
		return ErrChanged
	case b.Owner != m.digest("owner", principal, 8):
		return ErrOtherOwner
	}
	return nil
}
