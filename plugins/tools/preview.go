package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// Preview implements driver.Previewer from what was accepted. It starts nothing.
func (t *tools) Preview(_ context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	asked, why := readDisplay(req.Input)
	if why != "" {
		return driver.CannotPreview(why), nil
	}
	found, server, err := t.meant(asked.Tool)
	if err != nil {
		return driver.CannotPreview(err.Error()), nil
	}
	p := plan{Server: found.Server, Tool: found.Tool, Arguments: asked.Arguments, Pin: found.Pin.Digest(), Launch: server.Launch}
	if p.Arguments == nil {
		if len(req.Proposal) == 0 {
			return driver.ProposalNeeded(found.Pin.InputSchema, fmt.Sprintf("Propose the arguments of the tool %s of %s: %s", found.Tool, found.Server, found.Pin.Description)), nil
		}
		if p.Arguments, err = proposed(req.Proposal); err != nil {
			return driver.ProposalInvalid(driver.Problem("/arguments", err.Error())), nil
		}
		p.Proposed = true
	}
	if problems := schema.Validate(found.Pin.InputSchema, p.Arguments); fields.AnyError(problems) && (p.Proposed || !templated(p.Arguments)) {
		if p.Proposed {
			return driver.ProposalInvalid(problems...), nil
		}
		return driver.CannotPreview(fmt.Sprintf("the challenge's arguments do not fit the tool %s: %s", found.Tool, fields.Text(problems))), nil
	}
	data, err := json.Marshal(p)
	if err != nil {
		return driver.PreviewResult{}, err
	}
	action, err := json.Marshal(map[string]any{"server": p.Server, "tool": bare(p.Tool), "arguments": p.Arguments})
	if err != nil {
		return driver.PreviewResult{}, err
	}
	effect := driver.EffectChanges
	if found.Pin.Class == mcpclient.Reads {
		effect = driver.EffectReads
	}
	return driver.Planned(driver.Plan{Text: p.text(), Data: data, Effect: effect, Action: action}), nil
}

// actionSchema declares the action of a plan, with members as the driver mcp has them.
const actionSchema = `{"type":"object","properties":{` +
	`"tool":{"type":"string","pattern":"^[^A-Z./:]+$","description":"the name of the tool in lower case, without the name of its server in front"},` +
	`"server":{"type":"string","minLength":1,"description":"the server of the tool, as kairos tools list has it"},` +
	`"arguments":{"type":"object","description":"what the tool is called with"}}}`

// bare is the name of a tool in lower case behind its last separator, as the challenge
// driver states it.
func bare(tool string) string {
	for _, separator := range []string{"__", ".", ":", "/"} {
		if at := strings.LastIndex(tool, separator); at >= 0 && at+len(separator) < len(tool) {
			tool = tool[at+len(separator):]
		}
	}
	return strings.ToLower(tool)
}

// readDisplay reads what the challenge asks for; why not, otherwise.
func readDisplay(in driver.Input) (d display, why string) {
	if in.Kind != driver.KindEvidence || in.Type != challengeType {
		return d, "it calls tools for challenges of type " + challengeType + " only"
	}
	if err := json.Unmarshal(in.Display, &d); err != nil || d.Tool == "" {
		return d, "the challenge names no tool"
	}
	return d, ""
}

// proposed reads the arguments that an agent proposes: alone, or in the envelope in
// which it reports a call, of which nothing else counts.
func proposed(proposal json.RawMessage) (json.RawMessage, error) {
	one, err := fields.DecodeOne(proposal)
	if err != nil {
		return nil, err
	}
	o := fields.Open(one, "")
	if o.Has("arguments") && (o.Has("tool_name") || o.Has("result") || o.Has("success")) {
		one = o.Raw("arguments")
	}
	if len(one) == 0 || one[0] != '{' {
		return nil, fmt.Errorf("must be an object")
	}
	return one, nil
}

// templated reports whether the arguments still hold templates, as before a run:
// whether they fit can only be told once they are filled.
func templated(arguments json.RawMessage) bool {
	return bytes.Contains(arguments, []byte("{{"))
}

// text says what will be called, an argument a line.
func (p plan) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Call the tool %s of %s", p.Tool, p.Server)
	var arguments map[string]json.RawMessage
	if json.Unmarshal(p.Arguments, &arguments) != nil || len(arguments) == 0 {
		return b.String()
	}
	b.WriteString(" with")
	for _, key := range slices.Sorted(maps.Keys(arguments)) {
		fmt.Fprintf(&b, "\n  %s: %s", label(key), readable(arguments[key]))
	}
	return b.String()
}

// readable is a text of one plain line without quotes, and anything else as JSON.
func readable(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return plainly(text, unicode.IsPrint)
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// label is the name of an argument, which the agent may have chosen.
func label(key string) string {
	return plainly(key, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-.$", r) })
}

// plainly quotes a text that is not made of such characters alone, so that a line
// break in it does not look like another argument.
func plainly(text string, made func(rune) bool) string {
	other := func(r rune) bool { return !made(r) }
	if text == "" || text != strings.TrimSpace(text) || strings.Contains(text, "  ") || strings.ContainsFunc(text, other) {
		return strconv.Quote(text)
	}
	return text
}
