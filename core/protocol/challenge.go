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

// commonNames are the keys of commonKeys.
var commonNames = slices.Sorted(maps.Keys(commonKeys))

// maxQuestion is the longest question to a judge, in bytes.
const maxQuestion = 4000

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
