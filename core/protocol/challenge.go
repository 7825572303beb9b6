package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// CommonOf reads the part of a challenge that the core owns. A nil challenge
// has the zero Common.
func CommonOf(challenge json.RawMessage) (Common, error) {
	var c Common
	if len(challenge) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(challenge, &c); err != nil {
		return Common{}, fmt.Errorf("read challenge: %w", err)
	}
	return c, nil
}

// commonKeys are the keys of Common; beside them stand "type" and the object
// that is named like the type.
var commonKeys = map[string]bool{
	"type": true, "name": true, "required": true, "approval_mode": true, "output_schema": true,
	"sampling": true, "files": true, "files_required": true,
}

// takeChallenge reads the challenge of a step's body into s and returns the
// body without it.
func (p *parse) takeChallenge(s *Step, body span) string {
	if f, ok := p.lastFence(body); ok {
		if challenge := p.challengeBlock(s, f, body); challenge != nil {
			s.Challenge, s.ChallengeLine = challenge, p.lineOf(f.start)
			p.judge(s)
			return p.src[body.start:f.start]
		}
		p.warnExamples(s, body)
	}
	return p.takeLegacy(s, body)
}

// warnExamples tells of blocks that may have been meant as the challenge of a
// step that has none.
func (p *parse) warnExamples(s *Step, body span) {
	all := p.within(body)
	for _, f := range all[:len(all)-1] {
		if looksLikeChallenge(f) {
			p.warn(f.start, s.Label, "this block is text; a challenge must be the last thing of its step")
		}
	}
}

func (p *parse) lastFence(body span) (fence, bool) {
	all := p.within(body)
	if len(all) == 0 {
		return fence{}, false
	}
	return all[len(all)-1], true
}

// looksLikeChallenge reports whether the author of the block will have meant
// a challenge.
func looksLikeChallenge(f fence) bool { return f.objectWith("challenge") }

// objectWith reports whether the block seems to be a JSON object with the key.
func (f fence) objectWith(key string) bool {
	return (f.language == "json" || f.language == "") && isObject([]byte(f.content)) &&
		strings.Contains(f.content, `"`+key+`"`)
}

// challengeBlock returns the challenge object of a step's last fenced block,
// nil when it is something else; it reports what looks like a mistake.
func (p *parse) challengeBlock(s *Step, f fence, body span) json.RawMessage {
	if !looksLikeChallenge(f) {
		if strings.Contains(f.content, `"challenge"`) && strings.EqualFold(f.language, "json") {
			p.warn(f.start, s.Label, fmt.Sprintf("a block of language %q is text; write json to make it a challenge", f.language))
		}
		return nil
	}
	top, err := members([]byte(f.content))
	if err != nil {
		p.jsonProblem(f, s.Label, err)
		return nil
	}
	challenge, ok := top["challenge"]
	switch {
	case !ok:
		return nil
	case !isObject(challenge):
		p.fail(f.start, s.Label, `"challenge" must be a JSON object`)
		return nil
	case !f.alone:
		p.warn(f.start, s.Label, "a challenge block in a quote or behind a list marker is text")
		return nil
	case !f.closed:
		p.fail(f.start, s.Label, "the challenge block is not closed")
		return nil
	case strings.TrimSpace(p.src[f.end:body.end]) != "":
		p.fail(f.start, s.Label, "text follows the challenge block; it must be the last thing of its step")
		return nil
	}
	p.warnBeside(top, s, f)
	p.warnSecond(s, f, body)
	return challenge
}

func (p *parse) warnBeside(top map[string]json.RawMessage, s *Step, f fence) {
	for key := range top {
		if key != "challenge" {
			p.warn(f.start, s.Label, fmt.Sprintf("the key %q beside \"challenge\" is dropped", cut(key)))
		}
	}
}

func (p *parse) warnSecond(s *Step, last fence, body span) {
	all := p.within(body)
	if len(all) < 2 {
		return
	}
	before := all[len(all)-2]
	if looksLikeChallenge(before) && before.end <= last.start && strings.TrimSpace(p.src[before.end:last.start]) == "" {
		p.warn(before.start, s.Label, "two challenge blocks end the step; the last one counts, this one is text")
	}
}

// judge checks what the core owns of a challenge. The rest is the driver's.
func (p *parse) judge(s *Step) {
	for _, d := range judgeCommon(s.Challenge) {
		d.Line, d.Column, d.Step = s.ChallengeLine, 1, s.Label
		p.add(d)
	}
}

func judgeCommon(challenge json.RawMessage) []Diagnostic {
	fields, err := members(challenge)
	if err != nil {
		return []Diagnostic{{Severity: driver.SeverityError, Message: err.Error()}}
	}
	c, err := CommonOf(challenge)
	if err != nil {
		return []Diagnostic{typeProblem(err)}
	}
	var found []Diagnostic
	bad := func(pointer, message string) {
		found = append(found, Diagnostic{Severity: driver.SeverityError, Pointer: pointer, Message: message})
	}
	if raw, ok := fields["name"]; ok && string(raw) != "null" && (len(c.Name) > maxName || !namePattern.MatchString(c.Name)) {
		bad("/name", fmt.Sprintf("name %.80q must be [a-z0-9_]+, not starting with a digit, at most %d characters", c.Name, maxName))
	}
	if raw, ok := fields["output_schema"]; ok && !isObject(raw) {
		bad("/output_schema", "output_schema must be a JSON Schema object")
	}
	if c.ApprovalMode != "" && c.ApprovalMode != driver.ApprovalAuto && c.ApprovalMode != driver.ApprovalUser {
		bad("/approval_mode", fmt.Sprintf("approval_mode %.80q must be %q or %q", c.ApprovalMode, driver.ApprovalAuto, driver.ApprovalUser))
	}
	if raw, ok := fields["type"]; ok && c.Type == "" {
		bad("/type", fmt.Sprintf("type must be a non-empty string, not %.80s", raw))
	}
	for key := range fields {
		if folded := strings.ToLower(key); folded != key && commonKeys[folded] {
			bad("/"+pointerEscaper.Replace(key), fmt.Sprintf("the key %q must be written %q", key, folded))
		}
	}
	return append(found, unknownKeys(challenge, c.Type)...)
}

// unknownKeys warns of keys that mean nothing. A challenge without type may be
// of an older shape whose keys only its driver knows.
func unknownKeys(challenge json.RawMessage, kind string) []Diagnostic {
	if kind == "" {
		return nil
	}
	var found []Diagnostic
	_ = walkJSON(challenge, jsonWalker{onMember: func(pointer string, _, _ int) {
		key := pointer[1:]
		if strings.Contains(key, "/") || commonKeys[key] || key == pointerEscaper.Replace(kind) {
			return
		}
		found = append(found, Diagnostic{
			Severity: driver.SeverityWarning, Pointer: pointer,
			Message: fmt.Sprintf("unknown key %.80q beside %.80q", key, kind),
		})
	}})
	return found
}

// typeProblem turns a decoding error into a diagnostic with a pointer.
func typeProblem(err error) Diagnostic {
	d := Diagnostic{Severity: driver.SeverityError, Message: err.Error()}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		d.Pointer = "/" + strings.ReplaceAll(wrong.Field, ".", "/")
		d.Message = fmt.Sprintf("%s must not be a %s", wrong.Field, wrong.Value)
	}
	return d
}

// jsonProblem reports a fault in a block's JSON at its place in the document.
func (p *parse) jsonProblem(f fence, step string, err error) {
	var at *jsonError
	if !errors.As(err, &at) {
		p.fail(f.start, step, "the block must be a JSON object")
		return
	}
	p.fail(p.positionIn(f, at.offset), step, "invalid JSON: "+at.message)
}

// positionIn is where an offset of a block's content stands in the document.
func (p *parse) positionIn(f fence, offset int) int {
	line := strings.Count(f.content[:min(offset, len(f.content))], "\n")
	if line >= len(f.lines) {
		return f.start
	}
	column := offset - (strings.LastIndexByte(f.content[:offset], '\n') + 1)
	return min(f.lines[line]+column, len(p.src))
}

// problem is an error at a pointer of the step's challenge.
func (s Step) problem(pointer, message string) Diagnostic {
	line := s.ChallengeLine
	if line == 0 {
		line = s.Line
	}
	return Diagnostic{
		Severity: driver.SeverityError, Line: line, Column: 1, Step: s.Label, Pointer: pointer, Message: message,
	}
}
