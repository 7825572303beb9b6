package drivertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

func previewRules() []rule {
	return []rule{
		{"preview/sound", Must, previewSample, "Preview gives one outcome: a plan has a text, JSON and an effect of the descriptor, a question for a proposal has a schema, anything else a reason", previewSound},
		{"preview/repeatable", Must, previewSample, "Preview says the same twice, so that what is approved is what is called for", previewRepeatable},
		{"preview/proposal", Must, previewSample, "a proposal that an agent made up is an outcome, not an error", previewProposal},
		{"preview/planned", Must, previewSample, "without a plan of its own, Render does nothing and is unavailable", onlyPlanned},
	}
}

// previewer is the driver as one that plans.
func (s Subject) previewer() (driver.Previewer, error) {
	p, ok := unhanded(s.Capability).(driver.Previewer)
	if !ok {
		return nil, fmt.Errorf("it has the feature %s and no Preview", driver.FeaturePreview)
	}
	return handPreviewer{p, hand{found: s.found}}, nil
}

// previewed runs a check on what the host asks about each input of the samples.
func previewed(ctx context.Context, s Subject, check func(p driver.Previewer, req driver.PreviewRequest) error) error {
	p, err := s.previewer()
	if err != nil {
		return err
	}
	return eachRequest(ctx, s, "a Render sample", func(req driver.RenderRequest) error {
		return check(p, driver.PreviewRequest{Input: req.Input, Step: req.Step, Client: req.Client})
	})
}

func previewSound(ctx context.Context, s Subject) error {
	return previewed(ctx, s, func(p driver.Previewer, req driver.PreviewRequest) error {
		res, err := p.Preview(ctx, req)
		if err != nil {
			return err
		}
		return soundPreview(s.Descriptor, res)
	})
}

func soundPreview(d driver.Descriptor, res driver.PreviewResult) error {
	n := 0
	for _, set := range []bool{res.Plan != nil, res.Propose != nil, res.Invalid != nil, res.Unavailable != nil} {
		if set {
			n++
		}
	}
	allowed := []driver.Effect{driver.EffectReads}
	if d.Effect == driver.EffectChanges {
		allowed = append(allowed, driver.EffectChanges)
	}
	switch {
	case n != 1:
		return fmt.Errorf("it has %d outcomes: %s", n, printed(res))
	case res.Plan != nil && strings.TrimSpace(res.Plan.Text) == "":
		return errors.New("a plan without a text: nobody knows what they approve")
	case res.Plan != nil && (len(res.Plan.Data) == 0 || !json.Valid(res.Plan.Data)):
		return fmt.Errorf("the plan's data is not JSON: %.100q", res.Plan.Data)
	case res.Plan != nil && !slices.Contains(allowed, res.Plan.Effect):
		return fmt.Errorf("the plan's effect is %q, and that of the driver %q", res.Plan.Effect, d.Effect)
	case res.Propose != nil && !json.Valid(res.Propose.Schema):
		return fmt.Errorf("the schema of a proposal is not JSON: %.100q", res.Propose.Schema)
	case res.Invalid != nil && len(res.Invalid.Diagnostics) == 0:
		return errors.New("a proposal is refused without a diagnostic: the agent cannot make a better one")
	case res.Unavailable != nil && strings.TrimSpace(res.Unavailable.Reason) == "":
		return errors.New("unavailable without a reason")
	}
	return nil
}

func previewRepeatable(ctx context.Context, s Subject) error {
	return previewed(ctx, s, func(p driver.Previewer, req driver.PreviewRequest) error {
		first, err := p.Preview(ctx, req)
		if err != nil {
			return errPassedOver // preview/sound says so
		}
		again, err := p.Preview(ctx, req)
		if err != nil || printed(first) != printed(again) {
			return fmt.Errorf("asked twice it says\n%s\nand\n%s, %w", printed(first), printed(again), err)
		}
		return nil
	})
}

func previewProposal(ctx context.Context, s Subject) error {
	return previewed(ctx, s, func(p driver.Previewer, req driver.PreviewRequest) error {
		for _, proposal := range []string{
			`"nonsense"`, `[]`, `null`, `7`, `{}`, `{"arguments":"nonsense"}`, `{"unknown":{"a":[1,2]}}`, strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200),
		} {
			req.Proposal = json.RawMessage(proposal)
			res, err := p.Preview(ctx, req)
			if err != nil {
				return fmt.Errorf("the proposal %.60s is an error: %w", proposal, err)
			}
			if err := soundPreview(s.Descriptor, res); err != nil && res.Plan == nil { // plans are looked at without a proposal
				return fmt.Errorf("the proposal %.60s: %w", proposal, err)
			}
		}
		return nil
	})
}

func onlyPlanned(ctx context.Context, s Subject) error {
	return previewed(ctx, s, func(p driver.Previewer, req driver.PreviewRequest) error {
		for _, plan := range []string{``, `null`, `{}`, `[]`, `"plan"`, `{"kairos":"no plan of yours"}`} {
			if res, err := p.Preview(ctx, req); err == nil && res.Plan != nil && bytes.Equal(res.Plan.Data, []byte(plan)) {
				continue // it plans just that
			}
			result, err := s.Capability.Render(ctx, driver.RenderRequest{Input: req.Input, Step: req.Step, Client: req.Client, Plan: json.RawMessage(plan)})
			if err == nil && result.Unavailable == nil {
				return fmt.Errorf("called with the plan %q, which it did not make, it comes to %s", plan, printed(result))
			}
		}
		return nil
	})
}
