package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// Approval is how a challenge wants to be approved. A challenge that has one, even
// an empty one, is approved before the work.
type Approval struct {
	// How are the ways that count, as drivers name them (driver.Descriptor); nil
	// means all that the server takes.
	How []string `json:"how,omitempty"`
	// Phrase must be typed by the person who approves; optional.
	Phrase string `json:"phrase,omitempty"`
	// By are the people and groups of which somebody has to approve, as written; nil means anybody.
	By []string `json:"by,omitempty"`
	// Not is NotRunner where whoever runs the protocol may not approve; optional.
	Not string `json:"not,omitempty"`
	// Quorum is how many different people have to approve; 0 means 1.
	Quorum int `json:"quorum,omitempty"`
}

// ApprovalPhrase is what the challenge wants to be typed; empty: nothing.
func (c Common) ApprovalPhrase() string {
	if c.Approval == nil {
		return ""
	}
	return c.Approval.Phrase
}

// ApprovalHow are the ways of approving that the challenge takes; nil means all.
func (c Common) ApprovalHow() []string {
	if c.Approval == nil {
		return nil
	}
	return c.Approval.How
}

// Bounds of an approval.
const (
	maxPhrase = 100 // characters that a person may have to type
	maxHow    = 16  // ways of approving
	maxWay    = 64  // bytes of the name of one
)

// approvalKeys are the keys of an approval.
var approvalKeys = []string{"how", "phrase", "by", "not", "quorum"}

// approvalProblems checks the member "approval" of a challenge, as written, which
// has been read into c.
func (c Common) approvalProblems(raw json.RawMessage) []driver.Diagnostic {
	if c.Approval == nil {
		return []driver.Diagnostic{driver.Problem("/approval", `approval must be an object such as {} or {"phrase": "ship it"}, not null`)}
	}
	o := fields.Open(raw, "/approval")
	if o.Raw("how") != nil {
		if why := BadHow(c.Approval.How); why != "" {
			o.Wrong("how", "approval.how "+why)
		}
	}
	if o.Raw("phrase") != nil {
		if why := c.phraseProblem(); why != "" {
			o.Wrong("phrase", "approval.phrase "+why)
		}
	}
	c.Approval.peopleProblems(o)
	for _, key := range o.Unknown() {
		o.Wrong(key, fmt.Sprintf("unknown key %.80q in \"approval\"%s", key, fields.Suggestion(key, approvalKeys)))
	}
	if c.ApprovalMode == driver.ApprovalAuto {
		return append(o.Diagnostics(), driver.Problem("/approval", `approval contradicts approval_mode "auto": leave out one of them`))
	}
	return o.Diagnostics()
}

// phraseProblem says why the phrase, as written, is not allowed.
func (c Common) phraseProblem() string {
	if templatePattern.MatchString(c.Approval.Phrase) {
		return "must not have templates: a value could choose what the person types"
	}
	return BadPhrase(c.Approval.Phrase)
}

// BadHow says why the list cannot say how an approval is given, or "" if it can.
// Which words there are depends on the configured drivers.
func BadHow(how []string) string {
	switch {
	case len(how) == 0:
		return "is an empty list, so nobody could approve: leave it out, or name a way"
	case len(how) > maxHow:
		return fmt.Sprintf("has %d ways, at most %d are taken", len(how), maxHow)
	}
	for i, way := range how {
		switch {
		case way == "" || len(way) > maxWay || templatePattern.MatchString(way):
			return fmt.Sprintf("has %.80q, which is not the name of a way: at most %d bytes, without templates", way, maxWay)
		case slices.Contains(how[:i], way):
			return fmt.Sprintf("has %q twice", way)
		}
	}
	return ""
}

// BadPhrase says why nobody can type the phrase, or "" if somebody can.
func BadPhrase(phrase string) string {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch n := utf8.RuneCountInString(phrase); {
	case n < 1 || n > maxPhrase:
		return fmt.Sprintf("must have 1 to %d characters", maxPhrase)
	case strings.TrimSpace(phrase) != phrase || strings.ContainsFunc(phrase, unprintable):
		return "must be one line of printable characters without space around it"
	}
	return ""
}
