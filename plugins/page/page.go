package main

import (
	"context"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

func definition() driver.Driver {
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "page", Version: "0.1.0", Role: driver.RoleCapability,
			Handles: []string{driver.KindApproval}, Effect: driver.EffectPure,
			Features: []string{driver.FeatureHuman}, Needs: []string{driver.NeedApprovalPage}, AnswersBy: []string{driver.ByPage},
		},
		Capability: page{},
	}
}

type page struct{}

// shown tells the agent what to do; the host adds the link and the next call.
const shown = "A person has to approve this before anybody acts. Show them the link, where they see exactly what will be done and answer. " +
	"Do not open the link yourself, and do not do the step's work before they have approved."

// Render implements driver.Capability.
func (page) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	switch {
	case req.Input.Kind != driver.KindApproval:
		return driver.CannotRender("the approval page does not obtain inputs of kind " + req.Input.Kind), nil
	case req.Links.Approval == "":
		return driver.CannotRender("this server has no approval page"), nil
	}
	return driver.AnswerElsewhere(shown), nil
}

// Interpret implements driver.Capability. The page hands its answers to the
// server itself, so whatever comes here was not said there.
func (page) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("approvals of the page are not given through the client"), nil
}
