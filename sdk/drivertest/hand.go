package drivertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// hand is how the kit makes every call: with a key and fresh names where the driver
// acts, and with a time limit. After one call that got no answer it makes no other,
// so that a driver that hangs costs that time once.
type hand struct {
	found *found
	acts  bool
}

var errHung = errors.New("it was not called: it gave no answer before")

// within makes a call.
func within[R any](ctx context.Context, h hand, method string, call func(context.Context) (R, error)) (R, error) {
	var none R
	if h.found.hung() != "" {
		return none, errHung
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	result, err := call(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		h.found.setHung(method)
		return none, fmt.Errorf("%s gave no answer within %v", method, callLimit)
	}
	return result, err
}

// unhanded is a driver without the hand that calls it.
func unhanded[D any](d D) D {
	if h, ok := any(d).(interface{ inner() any }); ok {
		return h.inner().(D)
	}
	return d
}

type handChallenge struct {
	driver.Challenge
	hand
}

func (c handChallenge) inner() any { return c.Challenge }

func (c handChallenge) Validate(ctx context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	return within(ctx, c.hand, driverrpc.MethodValidate, func(ctx context.Context) (driver.ValidateResult, error) {
		return c.Challenge.Validate(ctx, prepared(c.hand, req))
	})
}

func (c handChallenge) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	return within(ctx, c.hand, driverrpc.MethodAdvance, func(ctx context.Context) (driver.AdvanceResult, error) {
		return c.Challenge.Advance(ctx, prepared(c.hand, req))
	})
}

type handCapability struct {
	driver.Capability
	hand
}

func (c handCapability) inner() any { return c.Capability }

func (c handCapability) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	return within(ctx, c.hand, driverrpc.MethodRender, func(ctx context.Context) (driver.RenderResult, error) {
		return c.Capability.Render(ctx, prepared(c.hand, req))
	})
}

func (c handCapability) Interpret(ctx context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	return within(ctx, c.hand, driverrpc.MethodInterpret, func(ctx context.Context) (driver.InterpretResult, error) {
		return c.Capability.Interpret(ctx, prepared(c.hand, req))
	})
}

type handPreviewer struct {
	driver.Previewer
	hand
}

func (p handPreviewer) Preview(ctx context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	return within(ctx, p.hand, driverrpc.MethodPreview, func(ctx context.Context) (driver.PreviewResult, error) { return p.Previewer.Preview(ctx, req) })
}

type handConfigurer struct {
	driver.Configurer
	hand
}

func (c handConfigurer) inner() any { return c.Configurer }

func (c handConfigurer) Configure(ctx context.Context, config json.RawMessage, dryRun bool) ([]driver.Diagnostic, error) {
	return within(ctx, c.hand, driverrpc.MethodConfigure, func(ctx context.Context) ([]driver.Diagnostic, error) {
		return c.Configurer.Configure(ctx, config, dryRun)
	})
}

func (c handConfigurer) CheckHealth(ctx context.Context) error {
	_, err := within(ctx, c.hand, driverrpc.MethodCheckHealth, func(ctx context.Context) (any, error) { return nil, c.Configurer.CheckHealth(ctx) })
	return err
}

// prepared is a request to a driver that acts with a key of its own, and the fresh
// name that belongs to the key.
func prepared[Req any](h hand, request Req) Req {
	if !h.acts {
		return request
	}
	request = withKey(request)
	id, _ := identityOf(request)
	return fresh(request, id.key)
}

// freshMark stands in a sample for a name that nothing had before, such as that of a
// tag or an account which can be made only once. It is the same in all calls with one
// idempotency key, so that a call that is made again is the same call.
const freshMark = "{{fresh}}"

// fresh fills in the mark.
func fresh[Req any](request Req, key string) Req {
	text, err := json.Marshal(request)
	if err != nil || !bytes.Contains(text, []byte(freshMark)) {
		return request
	}
	if key == "" {
		key = newKey()
	}
	sum := sha256.Sum256([]byte("fresh " + key))
	var filled Req
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte(freshMark), []byte("k"+hex.EncodeToString(sum[:10]))), &filled); err != nil {
		return request // cannot be: the mark stands in texts only
	}
	return filled
}

// withFresh fills in the marks of samples that may be called again and again.
func withFresh(samples []Sample) []Sample {
	out := slices.Clone(samples)
	for i, sample := range out {
		switch req := sample.Request.(type) {
		case driver.ValidateRequest:
			out[i].Request = fresh(req, "")
		case driver.AdvanceRequest:
			out[i].Request = fresh(req, req.IdempotencyKey)
		case driver.RenderRequest:
			out[i].Request = fresh(req, req.IdempotencyKey)
		case driver.InterpretRequest:
			out[i].Request = fresh(req, "")
		}
	}
	return out
}
