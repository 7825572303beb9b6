package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"
)

// Limits of what a provider sends: bytes of a document, and published keys.
const (
	maxDocument = 1 << 20
	maxKeys     = 100
)

// algorithms are those that tokens may be signed with, if the provider has them, too. With the
// algorithms of shared secrets whoever knows a public key could sign.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// published is what a provider has published about itself, as of one moment.
type published struct {
	keys []jose.JSONWebKey
	algs []jose.SignatureAlgorithm
	// endpoint is where people log in.
	endpoint oauth2.Endpoint
	at       time.Time // with the monotonic clock
}

var (
	errUnknownKey = errors.New("it is signed with a key that the identity provider does not publish")
	errSignature  = errors.New("its signature is wrong")
	errForm       = errors.New("it is not a JSON web token that is signed as the identity provider signs")
)

// VerifySignature implements oidc.KeySet.
func (p *published) VerifySignature(_ context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, p.algs)
	if err != nil {
		return nil, errForm
	}
	header := signed.Signatures[0].Header
	if kind, _ := header.ExtraHeaders[jose.HeaderType].(string); kind != "" && !slices.Contains(kinds, strings.ToLower(kind)) {
		return nil, errForm
	}
	failed := errUnknownKey
	for _, key := range p.keys {
		if header.KeyID != "" && header.KeyID != key.KeyID || key.Use != "" && key.Use != "sig" || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(key); err == nil {
			return payload, nil
		}
		if header.KeyID != "" { // else it may be of a key that is not published yet
			failed = errSignature
		}
	}
	return nil, failed
}

// kinds are the values of the header typ of access tokens.
var kinds = []string{"jwt", "at+jwt", "application/at+jwt"}

// client asks a provider: bounded, and nobody else than it names.
func client() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &http.Client{
		Transport: bounded{transport}, Timeout: askTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded limits the replies that pass through a transport.
type bounded struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.Transport.RoundTrip(r)
	if err == nil {
		res.Body = limited{io.LimitReader(res.Body, maxDocument), res.Body}
	}
	return res, err
}

type limited struct {
	io.Reader
	io.Closer
}

// ask fetches what the provider publishes.
func ask(ctx context.Context, c *http.Client, issuer string) (*published, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, c), issuer)
	if err != nil {
		return nil, err
	}
	var about struct {
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := provider.Claims(&about); err != nil {
		return nil, fmt.Errorf("read the metadata of the identity provider: %w", err)
	}
	p := &published{endpoint: provider.Endpoint(), at: time.Now()} // before the keys: what is withdrawn meanwhile counts from here
	for _, a := range algorithms {
		if slices.Contains(about.Algorithms, string(a)) {
			p.algs = append(p.algs, a)
		}
	}
	if len(p.algs) == 0 {
		p.algs = []jose.SignatureAlgorithm{jose.RS256} // which the standard demands
	}
	p.keys, err = fetchKeys(ctx, c, issuer, about.Keys)
	return p, err
}

func fetchKeys(ctx context.Context, c *http.Client, issuer, at string) ([]jose.JSONWebKey, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "https" && !strings.HasPrefix(issuer, "http://") {
		return nil, fmt.Errorf("the keys of the identity provider are at %.200q, which is not an https address", at)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(res.Body).Decode(&set); err != nil || res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s replies %s, and not with keys", at, res.Status)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && key.IsPublic() { // others are of kinds that are not used here
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("%s has %d public keys, and must have 1 to %d", at, len(keys), maxKeys)
	}
	return keys, nil
}
