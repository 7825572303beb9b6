package statement

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Key signs statements. Printing it shows its id only.
type Key struct{ private ed25519.PrivateKey }

// NewKey makes a key.
func NewKey() Key {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return Key{private}
}

const privateBlock, publicBlock = "PRIVATE KEY", "PUBLIC KEY"

// ParseKey reads what Encode wrote: an ed25519 key in PKCS #8, as PEM.
func ParseKey(text []byte) (Key, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != privateBlock {
		return Key{}, errors.New("must hold a PEM block " + privateBlock)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("read the private key: %w", err)
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return Key{}, errors.New("holds a private key that is not ed25519")
	}
	return Key{private}, nil
}

// Encode is the key as a file holds it: the secret itself.
func (k Key) Encode() []byte {
	b, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		panic(err) // an ed25519 key can be encoded
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateBlock, Bytes: b})
}

// String hides the key.
func (k Key) String() string { return "signing key " + k.Public().ID() }

// GoString hides the key.
func (k Key) GoString() string { return k.String() }

// Public is the key that others check with.
func (k Key) Public() PublicKey {
	public, ok := k.private.Public().(ed25519.PublicKey)
	if !ok {
		panic("an ed25519 key has an ed25519 public key")
	}
	return PublicKey{public}
}

// PublicKey checks statements. The zero value is none.
type PublicKey struct{ key ed25519.PublicKey }

// ParsePublic reads a public key: PEM, as `kairos runs key` and openssl print
// it, or the 32 bytes as base64.
func ParsePublic(text string) (PublicKey, error) {
	if block, _ := pem.Decode([]byte(text)); block != nil {
		if block.Type != publicBlock {
			return PublicKey{}, fmt.Errorf("a PEM block %s is not a public key", block.Type)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return PublicKey{}, fmt.Errorf("read the public key: %w", err)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return PublicKey{}, errors.New("the public key is not ed25519")
		}
		return PublicKey{key}, nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != ed25519.PublicKeySize {
		return PublicKey{}, fmt.Errorf("a public key is PEM, or %d bytes as base64", ed25519.PublicKeySize)
	}
	return PublicKey{ed25519.PublicKey(b)}, nil
}

// String is the key as base64.
func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k.key) }

// PEM is the key as openssl reads it.
func (k PublicKey) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: publicBlock, Bytes: k.der()}))
}

// ID is SHA-256 of the key's SubjectPublicKeyInfo, in hex.
func (k PublicKey) ID() string { return sumOf(k.der()) }

func (k PublicKey) der() []byte {
	b, err := x509.MarshalPKIXPublicKey(k.key)
	if err != nil {
		panic(err) // an ed25519 key can be encoded
	}
	return b
}

func (k PublicKey) none() bool { return k.key == nil }

// signer is a Key as the envelope wants it.
type signer struct{ Key }

func (s signer) KeyID() (string, error) { return s.Public().ID(), nil }

func (s signer) Sign(_ context.Context, data []byte) ([]byte, error) {
	return ed25519.Sign(s.private, data), nil
}

// verifier is a PublicKey as the envelope wants it.
type verifier struct{ PublicKey }

func (v verifier) KeyID() (string, error) { return v.ID(), nil }

func (v verifier) Public() crypto.PublicKey { return v.key }

func (v verifier) Verify(_ context.Context, data, sig []byte) error {
	if !ed25519.Verify(v.key, data, sig) {
		return errors.New("the signature is not of this key over this text")
	}
	return nil
}
