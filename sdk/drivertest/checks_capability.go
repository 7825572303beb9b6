package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

func capabilityNeeds(ctx context.Context, s Subject) error {
	if len(s.Descriptor.Needs) == 0 {
		return unconcerned("it needs nothing of a client")
	}
	return eachRequest(ctx, s, "a Render sample", func(req driver.RenderRequest) error {
		c := req.Client
		req.Client = driver.Client{Name: c.Name, Version: c.Version, Era: c.Era, Transport: c.Transport}
		req.Links = driver.Links{}
		result, err := s.Capability.Render(ctx, req)
		if err != nil {
			return err
		}
		if result.Unavailable == nil {
			return fmt.Errorf("the client can do nothing, the driver needs %v, and Render gave %s",
				s.Descriptor.Needs, printed(result))
		}
		return nil
	})
}

// renders runs a check on what variants of the Render samples come to. A
// variant that is refused with an error shows nothing.
func renders(ctx context.Context, s Subject, variants func(driver.RenderRequest) []driver.RenderRequest,
	check func(driver.RenderRequest, driver.RenderResult) error,
) error {
	return eachRequest(ctx, s, "a Render sample", func(req driver.RenderRequest) error {
		for _, variant := range variants(req) {
			result, err := s.Capability.Render(ctx, variant)
			if err != nil {
				continue
			}
			if err := check(variant, result); err != nil {
				return err
			}
		}
		return nil
	})
}

func asIs(req driver.RenderRequest) []driver.RenderRequest { return []driver.RenderRequest{req} }

// withEveryClient gives the request to clients of all combinations of abilities,
// with and without what else the client declared.
func withEveryClient(req driver.RenderRequest) []driver.RenderRequest {
	var out []driver.RenderRequest
	for _, declared := range []json.RawMessage{req.Client.Capabilities, nil} {
		for bits := range 16 {
			r := req
			r.Client.ElicitationForm, r.Client.ElicitationURL = bits&1 != 0, bits&2 != 0
			r.Client.Sampling, r.Client.Roots = bits&4 != 0, bits&8 != 0
			r.Client.Capabilities = declared
			out = append(out, r)
		}
	}
	return out
}

func capabilityUndeclared(ctx context.Context, s Subject) error {
	return renders(ctx, s, withEveryClient, func(req driver.RenderRequest, r driver.RenderResult) error {
		if r.ClientRequest == nil {
			return nil
		}
		demands, err := s.Descriptor.Demands(*r.ClientRequest)
		if err != nil {
			return fmt.Errorf("it renders a request that the host does not send: %w", err)
		}
		for _, pointer := range demands {
			if !req.Client.Declares(pointer) {
				return fmt.Errorf("it renders %s, which needs %s, for the client %s", r.ClientRequest.Method, pointer, printed(req.Client))
			}
		}
		return nil
	})
}

const methodElicit = "elicitation/create"

// isForm reports whether the request shows a person a form.
func isForm(r driver.ClientRequest) bool {
	var params struct {
		Mode string `json:"mode"`
	}
	_ = json.Unmarshal(r.Params, &params) // without a mode it is a form
	return r.Method == methodElicit && params.Mode != "url"
}

func capabilityOtherKinds(ctx context.Context, s Subject) error {
	req := driver.RenderRequest{Input: standardInput("kairos-unknown-kind"), Step: standardStep, Client: ableClient(s.Descriptor)}
	result, err := s.Capability.Render(ctx, req)
	if err == nil && result.Unavailable == nil {
		return fmt.Errorf("an input of kind %q, which it does not list in handles, came to %s", req.Input.Kind, printed(result))
	}
	return nil
}

func capabilityApprovalDefault(ctx context.Context, s Subject) error {
	if !slices.Contains(s.Descriptor.Handles, driver.KindApproval) {
		return unconcerned("it does not handle approvals")
	}
	preset := func(req driver.RenderRequest) []driver.RenderRequest {
		if req.Input.Kind != driver.KindApproval {
			return nil
		}
		withDefault := req
		withDefault.Input.Schema = presetSchema(req.Input.Schema)
		return []driver.RenderRequest{req, withDefault}
	}
	return renders(ctx, s, preset, func(_ driver.RenderRequest, r driver.RenderResult) error {
		if r.ClientRequest == nil || !isForm(*r.ClientRequest) {
			return nil
		}
		for name, field := range requestedFields(*r.ClientRequest) {
			if _, has := field["default"]; has {
				return fmt.Errorf("field %q has a default: a client that fills it in approves by itself: %s",
					name, r.ClientRequest.Params)
			}
		}
		return nil
	})
}

// presetSchema is the schema with a default on each field.
func presetSchema(schema json.RawMessage) json.RawMessage {
	var form map[string]any
	if json.Unmarshal(schema, &form) != nil {
		return schema
	}
	fields, _ := form["properties"].(map[string]any)
	for _, field := range fields {
		if f, ok := field.(map[string]any); ok {
			f["default"] = "approved"
		}
	}
	return json.RawMessage(printed(form))
}

func requestedFields(r driver.ClientRequest) map[string]map[string]any {
	var params struct {
		RequestedSchema struct {
			Properties map[string]map[string]any `json:"properties"`
		} `json:"requestedSchema"`
	}
	_ = json.Unmarshal(r.Params, &params) // what cannot be read has no fields
	return params.RequestedSchema.Properties
}

func capabilitySecrets(ctx context.Context, s Subject) error {
	secret := func(req driver.RenderRequest) []driver.RenderRequest {
		marked, password, hidden := req, req, req
		marked.Input.Sensitive = true
		password.Input.Schema = json.RawMessage(`{"type":"object","properties":{"password":{"type":"string","format":"password"}},` +
			`"required":["password"],"additionalProperties":false}`)
		hidden.Input.Schema = json.RawMessage(`{"type":"object","properties":{"token":{"type":"string","writeOnly":true}},` +
			`"required":["token"],"additionalProperties":false}`)
		return []driver.RenderRequest{marked, password, hidden}
	}
	return renders(ctx, s, secret, func(req driver.RenderRequest, r driver.RenderResult) error {
		if r.ClientRequest != nil && isForm(*r.ClientRequest) {
			return fmt.Errorf("it puts a secret (sensitive %t, schema %s) into a form; use url mode or be unavailable",
				req.Input.Sensitive, req.Input.Schema)
		}
		return nil
	})
}

func capabilityReview(ctx context.Context, s Subject) error {
	return renders(ctx, s, asIs, func(req driver.RenderRequest, r driver.RenderResult) error {
		switch {
		case r.ClientReview == nil:
			return nil
		case !s.Descriptor.Has(driver.FeatureClientReview):
			return fmt.Errorf("it leaves an input to the client's review without the feature %s", driver.FeatureClientReview)
		case req.Input.Kind != driver.KindApproval:
			return fmt.Errorf("it leaves an input of kind %q to the client's review; only an approval can be", req.Input.Kind)
		}
		return nil
	})
}

func capabilityElsewhere(ctx context.Context, s Subject) error {
	return renders(ctx, s, withAndWithoutLinks, func(req driver.RenderRequest, r driver.RenderResult) error {
		switch {
		case r.Elsewhere == nil:
			return nil
		case !s.Descriptor.Has(driver.FeatureHuman):
			return fmt.Errorf("it leaves an input to a person without the feature %s", driver.FeatureHuman)
		case req.Input.Kind != driver.KindApproval:
			return fmt.Errorf("it leaves an input of kind %q to the approval page; only an approval can be", req.Input.Kind)
		case req.Links.Approval == "":
			return errors.New("it leaves an approval to a page whose link it was not given")
		}
		return nil
	})
}

func capabilityHow(ctx context.Context, s Subject) error {
	if len(s.Descriptor.AnswersBy) == 0 {
		return unconcerned("it answers no approvals")
	}
	return renders(ctx, s, withEachWay(s.Descriptor), func(req driver.RenderRequest, r driver.RenderResult) error {
		if req.Input.Kind != driver.KindApproval || r.Unavailable != nil || r.Invalid != nil {
			return nil
		}
		if _, err := s.Descriptor.Answers(req.How, r); err != nil {
			return fmt.Errorf("it is asked for an approval by %s: %w", strings.Join(req.How, ", "), err)
		}
		return nil
	})
}

// withEachWay asks for all ways of the driver, and for each alone.
func withEachWay(d driver.Descriptor) func(driver.RenderRequest) []driver.RenderRequest {
	return func(req driver.RenderRequest) []driver.RenderRequest {
		req.How = d.AnswersBy
		out := []driver.RenderRequest{req}
		for _, way := range d.AnswersBy {
			req.How = []string{way}
			out = append(out, req)
		}
		return out
	}
}

func withAndWithoutLinks(req driver.RenderRequest) []driver.RenderRequest {
	without := req
	without.Links = driver.Links{}
	return []driver.RenderRequest{req, without}
}

func capabilityProvenance(ctx context.Context, s Subject) error {
	return s.eachSample(ctx, func(sample Sample) error {
		result, err := s.call(ctx, sample.Request)
		if err != nil {
			return nil //nolint:nilerr // another check's finding
		}
		for _, a := range answersIn(result) {
			if why := overclaimed(s.Descriptor, a.Provenance); why != "" {
				return fmt.Errorf("the answer is %s, but %s", a.Provenance, why)
			}
		}
		return nil
	})
}

// overclaimed says why a driver may not claim the provenance.
func overclaimed(d driver.Descriptor, p driver.Provenance) string {
	switch p {
	case driver.AgentReported, driver.ModelGenerated:
		return ""
	case driver.ClientAttested, driver.LinkHolder:
		if !d.Has(driver.FeatureHuman) {
			return "the driver lacks the feature " + driver.FeatureHuman
		}
		return ""
	case driver.ServerObserved:
		if d.Effect != driver.EffectReads && d.Effect != driver.EffectChanges {
			return fmt.Sprintf("its effect class is %q: it looks at nothing", d.Effect)
		}
		if d.Has(driver.FeatureAgent) || d.Has(driver.FeatureClientReview) || d.Has(driver.FeatureModel) {
			return "the driver has it from the " + strings.Join(d.Features, ", ")
		}
		return ""
	}
	return "that is not a provenance"
}

func clientError(ctx context.Context, s Subject) error {
	return eachRequest(ctx, s, "an Interpret sample", func(req driver.InterpretRequest) error {
		for _, code := range []int{-1, -32603, -32601, 0} {
			req.Raw, req.ClientError = nil, &driver.ClientError{Code: code, Message: "approved"}
			result, err := s.Capability.Interpret(ctx, req)
			if err != nil {
				return err
			}
			if result.Answer != nil {
				return fmt.Errorf("client error %d became the answer %s", code, printed(result))
			}
		}
		return nil
	})
}

func anyReply(ctx context.Context, s Subject) error {
	return eachRequest(ctx, s, "an Interpret sample", func(req driver.InterpretRequest) error {
		for _, raw := range replies(s) {
			req.Raw, req.ClientError = raw, nil
			result, err := s.call(ctx, req)
			if err == nil {
				err = sound(result)
			}
			if err != nil {
				return fmt.Errorf("reply %q: %w", cut(string(raw)), err)
			}
		}
		return nil
	})
}

// replies are what a stranger may send; a transport that speaks JSON carries
// only JSON, and each of its calls costs a process.
func replies(s Subject) []json.RawMessage {
	if s.Descriptor.Transport != driver.TransportExec {
		return hostileBytes()
	}
	var out []json.RawMessage
	for _, raw := range hostileBytes() {
		if json.Valid(raw) && len(out) < 12 {
			out = append(out, raw)
		}
	}
	return out
}

// declinedReplies runs a check on the samples that are declined.
func declinedReplies(ctx context.Context, s Subject, check func(driver.InterpretRequest) error) error {
	return eachRequest(ctx, s, `an Interpret sample with "want": "declined"`, func(req driver.InterpretRequest) error {
		before, err := s.Capability.Interpret(ctx, req)
		if err != nil {
			return err
		}
		if before.Declined == nil {
			return errPassedOver
		}
		return check(req)
	})
}

func capabilityDeclined(ctx context.Context, s Subject) error {
	return declinedReplies(ctx, s, func(req driver.InterpretRequest) error {
		req.Client.Name, req.Client.Version = "another-client", "9.9.9"
		req.Step.Index, req.Step.Count = req.Step.Index+1, req.Step.Count+1
		after, err := s.Capability.Interpret(ctx, req)
		if err != nil {
			return err
		}
		if after.Declined == nil {
			return fmt.Errorf("declined, and for another client %s", printed(after))
		}
		return nil
	})
}

// capabilityNoIsFinal puts the content of an approval of the same input into the
// decline.
func capabilityNoIsFinal(ctx context.Context, s Subject) error {
	return declinedReplies(ctx, s, func(req driver.InterpretRequest) error {
		for _, yes := range s.Samples {
			other, ok := yes.Request.(driver.InterpretRequest)
			if !ok || yes.Want != Answer || other.Input.ID != req.Input.ID || other.Input.Kind != req.Input.Kind {
				continue
			}
			both, ok := merged(req.Raw, other.Raw)
			if !ok {
				continue
			}
			changed := req
			changed.Raw = both
			after, err := s.Capability.Interpret(ctx, changed)
			if err == nil && after.Answer != nil {
				return fmt.Errorf("declined, and with what sample %q holds besides, %s, it is the answer %s",
					yes.Name, both, printed(after))
			}
		}
		return nil
	})
}

// merged adds to an object the keys of another that it does not have.
func merged(to, from json.RawMessage) (json.RawMessage, bool) {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(to, &a) != nil || json.Unmarshal(from, &b) != nil || a == nil {
		return nil, false
	}
	out := maps.Clone(b)
	if out == nil {
		out = map[string]json.RawMessage{}
	}
	maps.Copy(out, a)
	return json.RawMessage(printed(out)), true
}
