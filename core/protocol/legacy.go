package protocol

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// legacyLine is the form of challenges before they were JSON. Documents with it
// are still in use.
var legacyLine = regexp.MustCompile(`(?i)^\s*(?:[-*+]\s+)?(?:\*\*|__)?\s*PROOF OF WORK\s*(?:\*\*|__)?\s*:\s*(?:\*\*|__)?\s*` +
	`(?:\[?timeout\s+(\d{1,9})(ms|s|m|h)\b\]?\s+)?(\S.*)$`)

const legacyTimeout = 60 // seconds

// legacyChallenge is the stored form of a legacy line. It has no type: readers of
// a challenge without a type apply the default.
type legacyChallenge struct {
	Cmd            string  `json:"cmd"`
	TimeoutSeconds float64 `json:"timeout_seconds"`
	Required       bool    `json:"required"`
}

// takeLegacy parses the first legacy line of a step into s and returns the body
// without it.
func (p *parse) takeLegacy(s *Step, body span) string {
	for start := body.start; start < body.end; {
		end := min(p.text.lineEnd(start), body.end)
		m := legacyLine.FindStringSubmatch(strings.TrimRight(p.text.src[start:end], " \t\r\n"))
		if m == nil || p.text.verbatim(start) {
			start = end
			continue
		}
		s.Challenge, s.ChallengeLine = legacyJSON(m[1], m[2], m[3]), p.text.lineOf(start)
		// A blank line replaces it: otherwise the lines around it could become one
		// paragraph, or a heading.
		rest := p.text.src[body.start:start] + "\n" + p.text.src[end:body.end]
		if problem := openEnd(Step{Label: s.Label, Text: joinHeading(s.Label, rest)}, min(1, len(s.Label))); problem != "" {
			p.fail(0, s.Label, problem)
		}
		return rest
	}
	return p.text.src[body.start:body.end]
}

func legacyJSON(amount, unit, cmd string) json.RawMessage {
	seconds := map[string]float64{"ms": 0.001, "s": 1, "m": 60, "h": 3600}
	c := legacyChallenge{Cmd: unquoteCommand(cmd), TimeoutSeconds: legacyTimeout, Required: true}
	if amount != "" {
		n, _ := strconv.ParseFloat(amount, 64) // the pattern admits digits only
		c.TimeoutSeconds = n * seconds[strings.ToLower(unit)]
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(c) // strings and numbers always encode
	return json.RawMessage(strings.TrimSpace(b.String()))
}

// unquoteCommand removes the markup of inline code around a whole command.
func unquoteCommand(cmd string) string {
	cmd = strings.TrimSpace(cmd)
	if inner, ok := strings.CutPrefix(cmd, "`"); ok {
		if inner, ok = strings.CutSuffix(inner, "`"); ok && inner != "" && !strings.Contains(inner, "`") {
			return inner
		}
	}
	return cmd
}
