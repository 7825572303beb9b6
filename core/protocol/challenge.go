package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
)

// CommonOf decodes the part of a challenge that the core owns. A nil challenge has
// the zero Common. An approval implies the approval mode "user".
func CommonOf(challenge json.RawMessage) (Common, error) {
	var c Common
	if len(challenge) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(challenge, &c); err != nil {
		return Common{}, fmt.Errorf("read challenge: %w", fields.Plain(err))
	}
	if c.Approval != nil && c.ApprovalMode == "" {
		c.ApprovalMode = driver.ApprovalUser
	}
	return c, nil
}

// commonKeys are the keys of Common; the other keys of a challenge are "type" and
// the object named after the type.
var commonKeys = map[string]bool{
	"type": true, "name": true, "required": true, "approval_mode": true, "approval": true, "output_schema": true,
	"sampling": true, "files": true, "files_required": true, "judge": true, "evidence": true,
}

// maxQuestion is the longest question to a judge, in bytes.
const maxQuestion = 4000

// takeChallenge parses the challenge of a step's body into s and returns the rest
// of the body.
func (p *parse) takeChallenge(s *Step, body span) string {
	if f, ok := p.text.lastFence(body); ok {
		if b, ok := p.challengeBlock(s, f, body); ok {
			challenge := b.top["challenge"]
			s.Challenge, s.ChallengeLine, s.Anchors = challenge.value, p.text.lineOf(f.start), b.anchorsOf(challenge)
			p.found.add(s.judgeCommon()...)
			return p.text.src[body.start:f.start]
		}
		p.warnExamples(s, body)
	}
	return p.takeLegacy(s, body)
}

// warnExamples warns of blocks that may be meant as the challenge of a step
// without one.
func (p *parse) warnExamples(s *Step, body span) {
	all := p.text.within(body)
	for _, f := range all[:len(all)-1] {
		if looksLikeChallenge(f) {
			p.warn(f.start, s.Label, "this block is text; a challenge must be the last thing of its step")
		}
	}
}

// looksLikeChallenge reports whether the author probably meant the block as a
// challenge.
func looksLikeChallenge(f fence) bool { return f.objectWith("challenge") }

// objectWith reports whether the block seems to be a JSON object with the key.
func (f fence) objectWith(key string) bool {
	return (f.language == "json" || f.language == "") && isObject([]byte(f.content)) &&
		strings.Contains(f.content, `"`+key+`"`)
}

// challengeBlock reads the last fenced block of a step; false: it holds no challenge.
// It reports probable mistakes.
func (p *parse) challengeBlock(s *Step, f fence, body span) (block, bool) {
	if !looksLikeChallenge(f) {
		if strings.Contains(f.content, `"challenge"`) && strings.EqualFold(f.language, "json") {
			p.warn(f.start, s.Label, fmt.Sprintf("a block of language %q is text; write json to make it a challenge", f.language))
		}
		return block{}, false
	}
	b, ok := p.read(f, s.Label)
	if !ok {
		return b, false
	}
	challenge, ok := b.top["challenge"]
	switch {
	case !ok:
		return b, false
	case !isObject(challenge.value):
		p.failAt(b.place(challenge.start), s.Label, `"challenge" must be a JSON object`)
		return b, false
	case !f.alone:
		p.warn(f.start, s.Label, "a challenge block in a quote or behind a list marker is text")
		return b, false
	case !f.closed:
		p.fail(f.start, s.Label, "the challenge block is not closed")
		return b, false
	case strings.TrimSpace(p.text.src[f.end:body.end]) != "":
		p.fail(p.text.textBehind(f), s.Label, "text follows the challenge block; it must be the last thing of its step")
		return b, false
	}
	p.warnBeside(s, b)
	p.warnSecond(s, f, body)
	return b, true
}

func (p *parse) warnBeside(s *Step, b block) {
	const most = 10
	keys := slices.Sorted(maps.Keys(b.top))
	for i, key := range keys[:min(len(keys), most+1)] {
		switch {
		case key == "challenge":
		case i == most:
			p.warn(b.start, s.Label, fmt.Sprintf("%d keys beside \"challenge\" are dropped", len(keys)-1))
		default:
			p.warnAt(b.place(b.top[key].key), s.Label, fmt.Sprintf("the key %q beside \"challenge\" is dropped", cut(key)))
		}
	}
}

func (p *parse) warnSecond(s *Step, last fence, body span) {
	all := p.text.within(body)
	if len(all) < 2 {
		return
	}
	before := all[len(all)-2]
	if looksLikeChallenge(before) && before.end <= last.start && strings.TrimSpace(p.text.src[before.end:last.start]) == "" {
		p.warn(before.start, s.Label, "two challenge blocks end the step; the last one counts, this one is text")
	}
}

// judgeCommon checks the part of a challenge that the core owns. The rest is
// checked by the driver.
func (s Step) judgeCommon() []Diagnostic {
	present, err := members(s.Challenge)
	if err != nil {
		return []Diagnostic{s.problem("", err.Error())}
	}
	c, err := CommonOf(s.Challenge)
	if err != nil {
		pointer, message := "", err.Error()
		if wrong := (*fields.TypeError)(nil); errors.As(err, &wrong) {
			pointer, message = wrong.Pointer, wrong.Message
		}
		return []Diagnostic{s.problem(pointer, message)}
	}
	var found []Diagnostic
	bad := func(pointer, message string) { found = append(found, s.problem(pointer, message)) }
	if raw, ok := present["name"]; ok && string(raw.value) != "null" && (utf8.RuneCountInString(c.Name) > maxName || !namePattern.MatchString(c.Name)) {
		bad("/name", fmt.Sprintf("name %.80q must be "+nameRule+", at most %d characters", c.Name, maxName))
	}
	if raw, ok := present["output_schema"]; ok && !isObject(raw.value) {
		bad("/output_schema", "output_schema must be a JSON Schema object")
	}
	if c.Judge != nil && len(c.Judge.Question) > maxQuestion {
		bad("/judge/question", fmt.Sprintf("question has %d bytes, at most %d are taken", len(c.Judge.Question), maxQuestion))
	}
	for _, d := range c.Sampling.problems() {
		bad("/sampling"+d.Pointer, d.Message)
	}
	if _, ok := present["approval_mode"]; ok && c.ApprovalMode != driver.ApprovalAuto && c.ApprovalMode != driver.ApprovalUser {
		bad("/approval_mode", fmt.Sprintf("approval_mode %.80q must be %q or %q", c.ApprovalMode, driver.ApprovalAuto, driver.ApprovalUser))
	}
	if raw, ok := present["approval"]; ok {
		for _, d := range c.approvalProblems(raw.value) {
			bad(d.Pointer, d.Message)
		}
	}
	if _, ok := present["evidence"]; ok {
		if why := c.Evidence.problem(); why != "" {
			bad("/evidence", why)
		}
	}
	if raw, ok := present["type"]; ok && c.Type == "" {
		bad("/type", fmt.Sprintf("type must be a non-empty string, not %.80s", raw.value))
	}
	for _, d := range s.FileProblems() {
		found = append(found, s.problem(d.Pointer, d.Message))
	}
	for key, m := range present {
		if folded := strings.ToLower(key); folded != key && commonKeys[folded] {
			d := s.problemAt(m.key, "/"+pointerEscaper.Replace(key), fmt.Sprintf("the key %q must be written %q", key, folded))
			found = append(found, d)
		}
	}
	return append(found, s.unknownKeys(c.Type)...)
}

// FileProblems validates the required files of the step before its templates are
// filled. Pointers are relative to the challenge.
func (s Step) FileProblems() []driver.Diagnostic {
	c, err := CommonOf(s.Challenge)
	if err != nil {
		return nil // reported as a problem of the whole challenge
	}
	var found []driver.Diagnostic
	for _, d := range filecheck.Lint(c.Files, templatePattern) {
		d.Pointer = "/files" + d.Pointer
		found = append(found, d)
	}
	if c.FilesRequired && filecheck.None(c.Files) {
		found = append(found, driver.Problem("/files_required", "files_required needs files: they are what has to be checked"))
	}
	return found
}

// blockKeys are the keys of the blocks that the core owns.
var blockKeys = map[string][]string{
	"sampling": {"system", "user", "temperature", "top_p", "max_tokens"},
	"judge":    {"question", "required"},
}

// unknownIn describes a key that its block does not define.
func unknownIn(block, key string) string {
	if strings.Contains(key, "/") || slices.ContainsFunc(blockKeys[block], func(k string) bool { return strings.EqualFold(k, key) }) {
		return ""
	}
	return fmt.Sprintf("unknown key %.80q in %q%s", key, block, fields.Suggestion(key, blockKeys[block]))
}

// unknownKeys reports unknown keys, which are errors in judge and warnings
// elsewhere. A challenge without a type may have an older form whose keys only its
// driver knows.
func (s Step) unknownKeys(kind string) []Diagnostic {
	if kind == "" {
		return nil
	}
	var found []Diagnostic
	_ = walkJSON(s.Challenge, jsonWalker{onMember: func(pointer string, at, _, _ int) {
		key := pointer[1:]
		if block, inner, below := strings.Cut(key, "/"); below && blockKeys[block] != nil && len(found) < maxFindings {
			if message := unknownIn(block, inner); message != "" {
				d := s.problemAt(at, pointer, message)
				if block != "judge" { // with a misspelt question the judge would answer the default one
					d.Severity = driver.SeverityWarning
				}
				found = append(found, d)
			}
		}
		if strings.Contains(key, "/") || commonKeys[strings.ToLower(key)] || key == pointerEscaper.Replace(kind) || len(found) == maxFindings {
			return
		}
		d := s.problemAt(at, pointer, fmt.Sprintf("unknown key %.80q beside %.80q%s", key, kind, fields.Suggestion(key, slices.Collect(maps.Keys(commonKeys)))))
		d.Severity = driver.SeverityWarning
		found = append(found, d)
	}})
	return found
}

// jsonProblem reports an error in a block's JSON at its place in the document.
func (p *parse) jsonProblem(b block, step string, err error) {
	var at *jsonError
	if !errors.As(err, &at) {
		p.fail(b.start, step, "the block must be a JSON object")
		return
	}
	p.failAt(b.place(at.offset), step, "invalid JSON: "+at.message+jsonHint(b.json, at.offset))
}
