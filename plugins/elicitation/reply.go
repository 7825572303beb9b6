package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

const rejected = "rejected"

// Interpret implements driver.Capability.
func (elicitation) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	if e := req.ClientError; e != nil {
		return driver.CannotInterpret(fmt.Sprintf("the client could not ask: %s (%d)", e.Message, e.Code)), nil
	}
	reply := fields.Open(req.Raw, "")
	action, found := reply.String("action")
	if !found && len(reply.Problems()) == 0 {
		reply.Wrong("action", "is missing")
	}
	if problems := reply.Problems(); problems != nil {
		return driver.NotAnAnswer(problems...), nil
	}
	switch action {
	case "accept":
		return accepted(reply, req), nil
	case "decline":
		return driver.PersonDeclined("the person declined to answer"), nil
	case "cancel":
		return driver.PersonDismissed("the person closed the question without an answer"), nil
	}
	return driver.NotAnAnswer(driver.Problem("/action", "must be accept, decline or cancel")), nil
}

func accepted(reply *fields.Object, req driver.InterpretRequest) driver.InterpretResult {
	if req.How == driver.ByPage { // whatever stands in it
		return driver.LeftOut("the person opened the approval page; the answer comes from there")
	}
	if !reply.Has("content") {
		return driver.NotAnAnswer(driver.Problem("/content", "is missing"))
	}
	strict, err := schema.Strict(req.Input.Schema)
	if err != nil {
		return driver.CannotInterpret("the input has no usable schema: " + err.Error())
	}
	content := reply.Raw("content")
	if shown, err := formOf(req.Input, req.Client); err == nil { // else nobody was shown it
		var found []driver.Diagnostic
		if content, found = shown.Value(content); found != nil {
			return driver.NotAnAnswer(below("/content", found)...)
		}
	}
	if found := schema.Validate(strict, content); found != nil {
		return driver.NotAnAnswer(below("/content", found)...)
	}
	if req.Input.Kind == driver.KindApproval && confirmation(content) == rejected {
		return driver.PersonDeclined("the person answered: rejected")
	}
	return driver.Answered(content, driver.ClientAttested)
}

func confirmation(content json.RawMessage) string {
	text, _ := fields.Open(content, "").String("confirmation")
	return text
}

func below(pointer string, found []driver.Diagnostic) []driver.Diagnostic {
	for i := range found {
		found[i].Pointer = pointer + found[i].Pointer
	}
	return found
}
