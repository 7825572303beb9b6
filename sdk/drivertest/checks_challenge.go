package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

func challengeGarbage(ctx context.Context, s Subject) error {
	if allBlamed[driver.ValidateRequest](s) {
		return nothingUsable(s)
	}
	for _, garbage := range []string{``, `{`, `null`, `[]`, `"text"`, `7`} {
		if s.Descriptor.Transport == driver.TransportExec && !json.Valid([]byte(garbage)) {
			continue // such a document cannot stand in a JSON request
		}
		result, err := s.call(ctx, driver.ValidateRequest{Challenge: json.RawMessage(garbage)})
		if err != nil {
			return fmt.Errorf("Validate(%q): %w", garbage, err)
		}
		if !slices.Equal(outcomes(result), []Outcome{Invalid}) {
			return fmt.Errorf("Validate(%q) found nothing wrong", garbage)
		}
	}
	return nil
}

func normalForm(ctx context.Context, s Subject) error {
	return eachRequest(ctx, s, `a Validate sample with "want": "valid"`, func(req driver.ValidateRequest) error {
		first, err := s.Challenge.Validate(ctx, req)
		if err != nil {
			return err
		}
		if !slices.Equal(outcomes(first), []Outcome{Valid}) {
			return errPassedOver
		}
		if len(first.Challenge) == 0 {
			return nil
		}
		second, err := s.Challenge.Validate(ctx, driver.ValidateRequest{Challenge: first.Challenge})
		if err != nil {
			return err
		}
		if !slices.Equal(outcomes(second), []Outcome{Valid}) {
			return fmt.Errorf("the normal form %s is invalid: %s", first.Challenge, printed(second))
		}
		if len(second.Challenge) > 0 && !sameJSON(first.Challenge, second.Challenge) {
			return fmt.Errorf("the normal form %s becomes %s", first.Challenge, second.Challenge)
		}
		return nil
	})
}

var (
	pointerPattern = regexp.MustCompile(`^(/([^/~]|~[01])*)*$`)
	escapings      = []driver.Escaping{driver.EscapeText, driver.EscapeJSON, driver.EscapeShell, driver.EscapeQuote}
	hostKinds      = []string{driver.KindApproval, driver.KindRunInput, driver.KindAcceptance, driver.KindFiles}
)

func challengePointers(ctx context.Context, s Subject) error {
	return eachRequest(ctx, s, "a Validate sample", func(req driver.ValidateRequest) error {
		result, err := s.Challenge.Validate(ctx, req)
		if err != nil {
			return err
		}
		for _, d := range result.Diagnostics {
			if !pointerPattern.MatchString(d.Pointer) {
				return fmt.Errorf("diagnostic %q: %q is not a JSON pointer", d.Message, d.Pointer)
			}
		}
		for _, t := range result.Templates {
			if !pointerPattern.MatchString(t.Pointer) || !slices.Contains(escapings, t.Escaping) {
				return fmt.Errorf("template %q with escaping %q: want a JSON pointer and one of %v", t.Pointer, t.Escaping, escapings)
			}
		}
		return nil
	})
}

// advances runs a check on what the Advance samples come to.
func advances(ctx context.Context, s Subject, give string, check func(driver.AdvanceRequest, driver.AdvanceResult) error) error {
	return eachRequest(ctx, s, give, func(req driver.AdvanceRequest) error {
		result, err := s.Challenge.Advance(ctx, req)
		if err != nil {
			return err
		}
		return check(req, result)
	})
}

func challengeInputs(ctx context.Context, s Subject) error {
	return advances(ctx, s, "an Advance sample", func(_ driver.AdvanceRequest, r driver.AdvanceResult) error {
		for _, in := range r.NeedInput {
			if slices.Contains(hostKinds, in.Kind) || slices.Contains(hostKinds, in.ID) {
				return fmt.Errorf("it asks for kind %q with id %q; %v are asked for by the host", in.Kind, in.ID, hostKinds)
			}
		}
		return nil
	})
}

func challengeDescription(ctx context.Context, s Subject) error {
	return advances(ctx, s, `an Advance sample with "want": "need_input"`, func(_ driver.AdvanceRequest, r driver.AdvanceResult) error {
		if len(r.NeedInput) == 0 {
			return errPassedOver
		}
		for _, in := range r.NeedInput {
			if in.Kind == driver.KindSimilarity {
				continue
			}
			if strings.TrimSpace(in.Description) == "" {
				return fmt.Errorf("input %q has no description: nobody knows what to give", in.ID)
			}
			if in.Kind == driver.KindEvidence && len(in.Schema) == 0 {
				return fmt.Errorf("input %q has no schema: neither a form nor a model can answer it", in.ID)
			}
		}
		return nil
	})
}

func unknownAnswers(ctx context.Context, s Subject) error {
	return advances(ctx, s, "an Advance sample", func(req driver.AdvanceRequest, before driver.AdvanceResult) error {
		req.Answers = append(slices.Clone(req.Answers), neverAsked)
		after, err := s.Challenge.Advance(ctx, req)
		return differ(before, nil, after, err)
	})
}

var neverAsked = driver.Answer{
	InputID: "never-asked", Value: json.RawMessage(`"approved"`), Provenance: driver.AgentReported,
}

const declinedAdvance = `an Advance sample with "want": "declined"`

// declines runs a check on the samples that are declined.
func declines(ctx context.Context, s Subject, check func(driver.AdvanceRequest, driver.AdvanceResult) error) error {
	return advances(ctx, s, declinedAdvance, func(req driver.AdvanceRequest, r driver.AdvanceResult) error {
		if r.Declined == nil {
			return errPassedOver
		}
		return check(req, r)
	})
}

func challengeDeclined(ctx context.Context, s Subject) error {
	return declines(ctx, s, func(req driver.AdvanceRequest, before driver.AdvanceResult) error {
		req.Round, req.State = req.Round+1, before.State
		after, err := s.Challenge.Advance(ctx, req)
		if err != nil {
			return err
		}
		if after.Declined == nil {
			return fmt.Errorf("declined, and one round later %s", printed(after))
		}
		return nil
	})
}

// challengeNoIsFinal changes everything around the no. Another refusal is fine.
func challengeNoIsFinal(ctx context.Context, s Subject) error {
	return declines(ctx, s, func(req driver.AdvanceRequest, _ driver.AdvanceResult) error {
		for name, changed := range aroundANo(req) {
			after, err := s.Challenge.Advance(ctx, changed)
			if err == nil && after.Accepted != nil {
				return fmt.Errorf("declined, and accepted with %s: %s", name, printed(after))
			}
		}
		return nil
	})
}

func aroundANo(req driver.AdvanceRequest) map[string]driver.AdvanceRequest {
	person, agent, more, stranger := req, req, req, req
	person.Answers, agent.Answers = slices.Clone(req.Answers), slices.Clone(req.Answers)
	for i := range req.Answers {
		person.Answers[i].Provenance, person.Answers[i].Via = driver.ServerObserved, "another"
		agent.Answers[i].Provenance, agent.Answers[i].Via = driver.AgentReported, "agent"
	}
	more.Answers = append(slices.Clone(req.Answers), neverAsked)
	stranger.Client = ableClient(driver.Descriptor{})
	stranger.Step.Index, stranger.Step.Count = req.Step.Index+1, req.Step.Count+2
	out := map[string]driver.AdvanceRequest{
		"the no server-observed": person, "the no agent-reported": agent, "an answer never asked for": more,
		"another client and step": stranger,
	}
	for _, round := range []int{2, 31} {
		later := req
		later.Round = round
		out[fmt.Sprintf("round %d", round)] = later
	}
	return out
}

func unknownState(ctx context.Context, s Subject) error {
	if len(s.Descriptor.StateVersions) == 0 {
		return unconcerned("it keeps no state")
	}
	const give = `an Advance sample with "want": "accepted"`
	return advances(ctx, s, give, func(req driver.AdvanceRequest, before driver.AdvanceResult) error {
		if before.Accepted == nil && before.Rejected == nil {
			return errPassedOver
		}
		req.State.Version = slices.Max(s.Descriptor.StateVersions) + 7
		if len(req.State.Data) == 0 {
			req.State.Data = json.RawMessage(`{}`)
		}
		after, err := s.Challenge.Advance(ctx, req)
		if err == nil && after.Unavailable == nil && len(after.NeedInput) == 0 {
			return fmt.Errorf("state of version %d, which it does not list, was judged: %s; fail, be unavailable or ask from the start",
				req.State.Version, printed(after))
		}
		return nil
	})
}

// asksFirst looks whether a driver acts before anybody could approve it: when it is
// asked what the step needs.
func asksFirst(ctx context.Context, s Subject) error {
	if s.Descriptor.Effect != driver.EffectChanges {
		return unconcerned(fmt.Sprintf("its effect is %q, so it does nothing", s.Descriptor.Effect))
	}
	return eachRequest(ctx, s, "an Advance sample", func(req driver.AdvanceRequest) error {
		if req.Recover {
			return errPassedOver
		}
		req.IdempotencyKey, req.Attempt, req.State, req.Round = newKey(), 1, driver.State{}, 0
		asked := req
		asked.Answers = nil
		result, err := s.Challenge.Advance(ctx, asked)
		if err != nil {
			return errPassedOver // another check's finding
		}
		if result.Accepted != nil || result.Pending != nil || result.Unknown != nil || result.NotDone != nil {
			return fmt.Errorf("without answers it comes to %s; want need_input: it acts on answers only", printed(result))
		}
		if !s.Descriptor.Has(driver.FeatureRecover) {
			return nil
		}
		req.Recover = true
		told, err := s.Challenge.Advance(ctx, req)
		if err == nil && (told.Accepted != nil || told.Pending != nil) {
			return fmt.Errorf("it was called without answers, and asked what came of that it says %s; want not_done: it acts on answers only", printed(told))
		}
		return nil
	})
}

func stateVersion(ctx context.Context, s Subject) error {
	return advances(ctx, s, "an Advance sample", func(_ driver.AdvanceRequest, r driver.AdvanceResult) error {
		versions := s.Descriptor.StateVersions
		if (r.State.Version != 0 || len(r.State.Data) > 0) && !slices.Contains(versions, r.State.Version) {
			return fmt.Errorf("it keeps state of version %d, its state_versions are %v", r.State.Version, versions)
		}
		return nil
	})
}

func challengeObserved(ctx context.Context, s Subject) error {
	return advances(ctx, s, "an Advance sample", func(_ driver.AdvanceRequest, r driver.AdvanceResult) error {
		if r.Accepted != nil && r.Accepted.Observed && s.Descriptor.Effect == driver.EffectPure {
			return errors.New("it says that it observed, but its effect is pure: it cannot have looked")
		}
		return nil
	})
}
