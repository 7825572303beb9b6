package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// key is a key pair of the provider.
type key struct {
	id      string
	private *rsa.PrivateKey
}

func newKey(id string) (key, error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	return key{id, private}, err
}

// ID implements op.SigningKey.
func (k key) ID() string { return k.id }

// SignatureAlgorithm implements op.SigningKey.
func (k key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }

// Key implements op.SigningKey.
func (k key) Key() any { return k.private }

// public is a key as it is published.
type public struct{ key }

// Algorithm implements op.Key.
func (p public) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }

// Use implements op.Key.
func (p public) Use() string { return "sig" }

// Key implements op.Key.
func (p public) Key() any { return &p.private.PublicKey }

// keys are the keys of the provider, the signing one last, and its clock.
type keys struct {
	mu      sync.Mutex // guards the fields below
	made    int
	all     []key
	offset  time.Duration // of the clock
	fetched int
}

// rotate signs with a new key from now on.
func (k *keys) rotate(keep bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made++
	next, err := newKey(fmt.Sprintf("key-%d", k.made))
	if err != nil {
		return err
	}
	if !keep {
		k.all = nil
	}
	k.all = append(k.all, next)
	return nil
}

func (k *keys) signing() key {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[len(k.all)-1]
}

func (k *keys) skew() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.offset
}

func (k *keys) now() time.Time { return time.Now().Add(k.skew()) }

// SigningKey implements op.AuthStorage.
func (k *keys) SigningKey(context.Context) (op.SigningKey, error) { return k.signing(), nil } //nolint:unparam // the interface has an error

// SignatureAlgorithms implements op.AuthStorage.
func (k *keys) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

// KeySet implements op.AuthStorage.
func (k *keys) KeySet(context.Context) ([]op.Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fetched++
	var out []op.Key
	for _, one := range k.all {
		out = append(out, public{one})
	}
	return out, nil
}

// sign signs claims as it is told, also as no provider should.
func (k *keys) sign(claims map[string]any, algorithm string, foreign bool) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	by := k.signing()
	if foreign {
		if by, err = newKey(by.id); err != nil {
			return "", err
		}
	}
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", by.id)
	var with jose.SigningKey
	switch algorithm {
	case "none":
		part := base64.RawURLEncoding.EncodeToString
		return part([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + part(payload) + ".", nil
	case "HS256":
		der, err := x509.MarshalPKIXPublicKey(&by.private.PublicKey)
		if err != nil {
			return "", err
		}
		secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		with = jose.SigningKey{Algorithm: jose.HS256, Key: secret}
	default:
		with = jose.SigningKey{Algorithm: jose.SignatureAlgorithm(algorithm), Key: by.private}
	}
	signer, err := jose.NewSigner(with, options)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
