package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

const (
	method = "sampling/createMessage"

	defaultTemperature = 0.2
	defaultTopP        = 0.9
	defaultMaxTokens   = 1024
)

func definition() driver.Driver {
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "sampling", Version: "0.1.0", Role: driver.RoleCapability,
			Handles: []string{driver.KindEvidence, driver.KindApproval},
			Effect:  driver.EffectReads, Features: []string{driver.FeatureClientReview},
			Needs: []string{driver.NeedSampling},
		},
		Capability: sampling{},
	}
}

type sampling struct{}

// params are the params of sampling/createMessage.
type params struct {
	Messages     []textMessage `json:"messages"`
	SystemPrompt string        `json:"systemPrompt"`
	Temperature  float64       `json:"temperature"`
	MaxTokens    int           `json:"maxTokens"`
	Metadata     metadata      `json:"metadata"`
}

type textMessage struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// metadata carries what createMessage has no field for. A client that honours
// it runs "auto" requests as its policy says and shows "user" requests to a
// person before the model acts. The first two keys also stand for themselves,
// so that a client need not know ours.
type metadata struct {
	ApprovalMode driver.ApprovalMode `json:"approvalMode"` // auto or user
	TopP         float64             `json:"top_p"`
	Kairos       kairosMetadata      `json:"kairos"`
}

type kairosMetadata struct {
	ApprovalMode driver.ApprovalMode `json:"approvalMode"`
	TopP         float64             `json:"top_p"`
	// Temperature repeats the field of the request: some clients never see a 0 there.
	Temperature float64 `json:"temperature"`
	Input       string  `json:"input"` // id of the input that is asked for
	Type        string  `json:"type,omitempty"`
	Protocol    string  `json:"protocol,omitempty"`
	Step        int     `json:"step,omitempty"` // 1-based
	Steps       int     `json:"steps,omitempty"`
}

// Render implements driver.Capability.
func (sampling) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	in := req.Input
	switch {
	case !req.Client.Sampling:
		return driver.CannotRender("the client has no sampling"), nil
	case in.Kind == driver.KindApproval:
		return driver.ReviewedByClient("the client shows the sampling request to the person, who approves, edits or refuses it"), nil
	case in.Kind != driver.KindEvidence:
		return driver.CannotRender("sampling does not obtain inputs of kind " + in.Kind), nil
	case in.Sensitive:
		return driver.CannotRender("a model must not be asked for secrets"), nil
	}
	if problem := unusable(in.Schema); problem != "" {
		return driver.CannotRender("the input has no usable schema: " + problem), nil
	}
	raw, err := json.Marshal(request(req))
	return driver.AskClient(method, raw), err
}

// unusable says why no answer could ever be judged by the schema, or nothing.
func unusable(s json.RawMessage) string {
	if len(s) == 0 {
		return ""
	}
	if _, err := schema.Strict(s); err != nil {
		return err.Error()
	}
	return ""
}

func request(req driver.RenderRequest) params {
	in := req.Input
	temperature, topP, approval := defaultTemperature, defaultTopP, driver.ApprovalAuto
	if in.Temperature != nil {
		temperature = *in.Temperature
	}
	if in.TopP != nil {
		topP = *in.TopP
	}
	if in.Person || in.Approval == driver.ApprovalUser {
		approval = driver.ApprovalUser
	}
	maxTokens := defaultMaxTokens
	if in.MaxTokens > 0 {
		maxTokens = in.MaxTokens
	}
	return params{
		Messages:     []textMessage{{Role: "user", Content: content{Type: "text", Text: userPrompt(req)}}},
		SystemPrompt: systemPrompt(in),
		Temperature:  temperature,
		MaxTokens:    maxTokens,
		Metadata: metadata{ApprovalMode: approval, TopP: topP, Kairos: kairosMetadata{
			ApprovalMode: approval, TopP: topP, Temperature: temperature, Input: in.ID, Type: in.Type,
			Protocol: req.Step.Protocol, Step: req.Step.Index, Steps: req.Step.Count,
		}},
	}
}

func firstNonBlank(texts ...string) string {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			return text
		}
	}
	return ""
}
