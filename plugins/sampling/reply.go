package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/prompt/exchange"
)

// codeRefused is the JSON-RPC error code of a client whose person refused a
// sampling request.
const codeRefused = -1

// stoppedAtLimit is the stopReason of an answer that was cut off.
const stoppedAtLimit = "maxTokens"

// reply is what came back from the client.
type reply struct {
	text       string // all text of the message
	model      string
	stopReason string
}

// Interpret implements driver.Capability.
func (sampling) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	if req.ClientError != nil {
		return refused(*req.ClientError, req.Input), nil
	}
	r, problems := readReply(req.Raw)
	if problems != nil {
		return driver.NotAnAnswer(problems...), nil
	}
	return judged(r, req.Input), nil
}

// judged takes exactly one JSON value that matches the strict form of the
// input's schema.
func judged(r reply, in driver.Input) driver.InterpretResult {
	if problem := exchange.Unusable(in); problem != "" {
		return driver.CannotInterpret("the input has no usable schema: " + problem)
	}
	cutOff := ""
	if r.stopReason == stoppedAtLimit {
		cutOff = "stopReason " + stoppedAtLimit
	}
	value, problems := exchange.Read(r.text, cutOff, in)
	if problems != nil {
		return driver.NotAnAnswer(problems...)
	}
	return driver.InterpretResult{Answer: &driver.Answer{
		Value: value, Provenance: driver.ModelGenerated, Model: r.model, StopReason: r.stopReason,
	}}
}

// refused: the refusal of a request that needs a person is that person's no;
// of any other one it only means that this client will not do it.
func refused(e driver.ClientError, in driver.Input) driver.InterpretResult {
	if e.Code == codeRefused && (in.Person || in.Approval == driver.ApprovalUser) {
		return driver.PersonDeclined("the person refused the sampling request: " + e.Message)
	}
	return driver.CannotInterpret(fmt.Sprintf("the client did not sample: %s (%d)", e.Message, e.Code))
}

func readReply(raw json.RawMessage) (reply, []driver.Diagnostic) {
	o := fields.Open(raw, "")
	var r reply
	r.model, _ = o.String("model")
	r.stopReason, _ = o.String("stopReason")
	if role, found := o.String("role"); found && role != "assistant" {
		o.Wrong("role", "must be assistant: the answer is the model's message")
	}
	blocks := o.Raw("content")
	if len(blocks) == 0 {
		o.Wrong("content", "is missing")
	}
	if problems := o.Problems(); problems != nil {
		return r, problems
	}
	var problems []driver.Diagnostic
	r.text, problems = textOf(blocks)
	return r, problems
}

// textOf joins the text of a message: one block or a list of them. Anything
// but text cannot be an answer.
func textOf(content json.RawMessage) (string, []driver.Diagnostic) {
	if content[0] != '[' {
		return textOfBlock(content, "/content")
	}
	var blocks []json.RawMessage
	if err := json.Unmarshal(content, &blocks); err != nil {
		return "", []driver.Diagnostic{driver.Problem("/content", err.Error())}
	}
	if len(blocks) == 0 {
		return "", []driver.Diagnostic{driver.Problem("/content", "is empty")}
	}
	var all strings.Builder
	for i, block := range blocks {
		text, problems := textOfBlock(block, fmt.Sprintf("/content/%d", i))
		if problems != nil {
			return "", problems
		}
		all.WriteString(text)
	}
	return all.String(), nil
}

func textOfBlock(block json.RawMessage, pointer string) (string, []driver.Diagnostic) {
	o := fields.Open(block, pointer)
	if kind, found := o.String("type"); len(o.Problems()) == 0 && (!found || kind != "text") {
		o.Wrong("type", "must be text: only text can be an answer")
	}
	text, found := o.String("text")
	if len(o.Problems()) == 0 && !found {
		o.Wrong("text", "is missing")
	}
	return text, o.Problems()
}
