// Package seal encrypts and authenticates what clients keep for the server and send back.
// It does not know what it seals, and decides nothing about expiry.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/cache"
)

// ErrNotSealed is returned for a text that no key of the Sealer has sealed for its use.
var ErrNotSealed = errors.New("the text was not sealed by this server")

// Sealer seals with the first of its keys and opens with all of them. A text from a client
// is untrusted until Open has returned its content. It is safe for concurrent use.
type Sealer struct {
	label   string
	ciphers func() ([]cipher.AEAD, error) // made from the keys at first use; the first one seals
}

// New returns a Sealer. keys is called at the first use, and again after a failure. The
// label separates this use of the keys from any other and names the layout of the content.
func New(label string, keys func() ([][32]byte, error)) Sealer {
	return Sealer{label: label, ciphers: cache.Once(func() ([]cipher.AEAD, error) {
		secrets, err := keys()
		if err == nil && len(secrets) == 0 {
			err = errors.New("there is no state key")
		}
		if err != nil {
			return nil, err
		}
		all := make([]cipher.AEAD, len(secrets))
		for i, secret := range secrets {
			if all[i], err = newCipher(secret, label); err != nil {
				return nil, err
			}
		}
		return all, nil
	})}
}

func newCipher(secret [32]byte, label string) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, secret[:], nil, label, 32)
	if err != nil {
		return nil, fmt.Errorf("derive state key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("state cipher: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Seal returns the content as a text of letters, digits, - and _. No two texts are equal.
func (s Sealer) Seal(content []byte) (string, error) {
	ciphers, err := s.ciphers()
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(ciphers[0].Seal(nil, nil, content, []byte(s.label))), nil
}

// Open returns the content of a text. The error is ErrNotSealed, or why there are no keys.
// A content has no second text: one that differs in a single bit does not open.
func (s Sealer) Open(text string) ([]byte, error) {
	ciphers, err := s.ciphers()
	if err != nil {
		return nil, err
	}
	box, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, ErrNotSealed
	}
	for _, c := range ciphers {
		if content, err := c.Open(nil, nil, box, []byte(s.label)); err == nil {
			return content, nil
		}
	}
	return nil, ErrNotSealed
}
