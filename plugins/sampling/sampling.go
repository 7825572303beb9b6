package main

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/prompt"
	"github.com/kairos-mcp/kairos/sdk/prompt/exchange"
	"github.com/kairos-mcp/kairos/sdk/settings"
)

const method = "sampling/createMessage"

func definition() driver.Driver {
	s := sampling{settings.New[config]()}
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "sampling", Version: "0.1.0", Role: driver.RoleCapability,
			Handles: []string{driver.KindEvidence, driver.KindApproval, driver.KindJudge},
			Effect:  driver.EffectPure, Features: []string{driver.FeatureClientReview, driver.FeatureModel},
			Needs: []string{driver.NeedSampling}, Sends: []driver.ClientMethod{{Method: method}}, AnswersBy: []string{driver.ByReview}, ConfigSchema: s.Schema(),
		},
		Capability: s,
	}
}

// config says which of its models the client is asked to prefer.
type config struct {
	Models      []string `json:"models" doc:"names, or parts of names, of models that the client is asked to prefer, best first; it may take another" max:"10"`
	JudgeModels []string `json:"judge_models" doc:"the same for judgements; none: those of models" max:"10"`
}

type sampling struct{ *settings.Of[config] }

// params are the params of sampling/createMessage.
type params struct {
	Messages     []textMessage `json:"messages"`
	SystemPrompt string        `json:"systemPrompt"`
	Temperature  float64       `json:"temperature"`
	MaxTokens    int           `json:"maxTokens"`
	Preferences  *preferences  `json:"modelPreferences,omitempty"`
	Metadata     metadata      `json:"metadata"`
}

type preferences struct {
	Hints []hint `json:"hints"`
}

type hint struct {
	Name string `json:"name"`
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
// person before the model acts. The first two keys are also there by themselves,
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
func (s sampling) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	in := req.Input
	switch {
	case !req.Client.Sampling:
		return driver.CannotRender("the client has no sampling"), nil
	case in.Kind == driver.KindApproval:
		return driver.ReviewedByClient("the client shows the sampling request to the person, who approves, edits or refuses it"), nil
	case in.Kind != driver.KindEvidence && in.Kind != driver.KindJudge:
		return driver.CannotRender("sampling does not obtain inputs of kind " + in.Kind), nil
	case in.Sensitive:
		return driver.CannotRender("a model must not be asked for secrets"), nil
	}
	if problem := exchange.Unusable(in); problem != "" {
		return driver.CannotRender("the input has no usable schema: " + problem), nil
	}
	raw, err := json.Marshal(s.request(req))
	return driver.AskClient(method, raw), err
}

// preferred are the models that the client is asked to prefer for the input.
func (s sampling) preferred(in driver.Input) *preferences {
	c := s.Now()
	names := c.Models
	if in.Kind == driver.KindJudge && len(c.JudgeModels) > 0 {
		names = c.JudgeModels
	}
	if len(names) == 0 {
		return nil
	}
	var p preferences
	for _, name := range names {
		p.Hints = append(p.Hints, hint{name})
	}
	return &p
}

func (s sampling) request(req driver.RenderRequest) params {
	in := req.Input
	temperature, topP, approval := prompt.Temperature, prompt.TopP, driver.ApprovalAuto
	if in.Temperature != nil {
		temperature = *in.Temperature
	}
	if in.TopP != nil {
		topP = *in.TopP
	}
	if in.Person || in.Approval == driver.ApprovalUser {
		approval = driver.ApprovalUser
	}
	maxTokens := driver.DefaultMaxTokens
	if in.MaxTokens > 0 {
		maxTokens = in.MaxTokens
	}
	return params{
		Messages:     []textMessage{{Role: "user", Content: content{Type: "text", Text: exchange.User(req)}}},
		SystemPrompt: exchange.System(in),
		Temperature:  temperature,
		MaxTokens:    maxTokens,
		Preferences:  s.preferred(in),
		Metadata: metadata{ApprovalMode: approval, TopP: topP, Kairos: kairosMetadata{
			ApprovalMode: approval, TopP: topP, Temperature: temperature, Input: in.ID, Type: in.Type,
			Protocol: req.Step.Protocol, Step: req.Step.Index, Steps: req.Step.Count,
		}},
	}
}
