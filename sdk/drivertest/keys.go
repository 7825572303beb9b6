package drivertest

import (
	"crypto/rand"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// newKey is an idempotency key as the host makes them: opaque, of lower-case letters
// and digits, and never used before.
func newKey() string { return strings.ToLower(rand.Text() + rand.Text()) }

// identity is what identifies a call of Advance or Render.
type identity struct {
	key     string
	attempt int
	recover bool
	cancel  bool
}

// identified returns the request as a call of that identity; requests of other
// methods have none and stay as they are.
func identified(request any, id identity) any {
	switch req := request.(type) {
	case driver.AdvanceRequest:
		req.IdempotencyKey, req.Attempt, req.Recover, req.Cancel = id.key, id.attempt, id.recover, id.cancel
		return req
	case driver.RenderRequest:
		req.IdempotencyKey, req.Attempt, req.Recover, req.Cancel = id.key, id.attempt, id.recover, id.cancel
		return req
	}
	return request
}

// identityOf is false for methods that neither act nor wait.
func identityOf(request any) (identity, bool) {
	switch req := request.(type) {
	case driver.AdvanceRequest:
		return identity{req.IdempotencyKey, req.Attempt, req.Recover, req.Cancel}, true
	case driver.RenderRequest:
		return identity{req.IdempotencyKey, req.Attempt, req.Recover, req.Cancel}, true
	}
	return identity{}, false
}

// orFresh is the identity with a key, a new one unless it has one.
func (id identity) orFresh() identity {
	if id.key == "" {
		id.key = newKey()
	}
	id.attempt = max(id.attempt, 1)
	return id
}

// keyed gives calls idempotency keys as the host does. A driver that may be
// asked again gets one for each sample. One with effects is never called twice
// with the same key, so it gets one for each call. Keys that a sample names stay.
func (s Subject) keyed() Subject {
	h := hand{found: s.found, acts: s.Descriptor.Effect == driver.EffectChanges}
	if s.Descriptor.Effect == driver.EffectReads {
		s.Samples, s.derived = withKeys(s.Samples), withKeys(s.derived)
	}
	if !h.acts {
		s.Samples = withFresh(s.Samples)
	}
	if s.Challenge != nil {
		s.Challenge = handChallenge{unhanded(s.Challenge), h}
	}
	if s.Capability != nil {
		s.Capability = handCapability{unhanded(s.Capability), h}
	}
	if s.Configurer != nil {
		s.Configurer = handConfigurer{unhanded(s.Configurer), h}
	}
	return s
}

func withKeys(samples []Sample) []Sample {
	out := slices.Clone(samples)
	for i, sample := range out {
		out[i].Request = withKey(sample.Request)
	}
	return out
}

// withKey is the request with a key, a new one unless it has one.
func withKey[Req any](request Req) Req {
	id, _ := identityOf(request)
	return identified(request, id.orFresh()).(Req)
}
