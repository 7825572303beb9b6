package output

import (
	"regexp"
	"strings"

	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// Commands is a text that the server words for agents with the commands of people
// in it: "call kairos_next with URI" becomes "run `kairos next URI`".
func Commands(text string) string {
	return toolCall.ReplaceAllStringFunc(text, func(found string) string {
		m := toolCall.FindStringSubmatch(found)
		command := "`kairos " + strings.TrimPrefix(m[2], "kairos_")
		if m[3] != "" {
			command += " " + m[3]
		}
		if m[4] != "" {
			command += " --run-id " + m[4]
		}
		return strings.NewReplacer("calling", "running", "call", "run").Replace(m[1]) + command + "`"
	})
}

// toolCall finds a tool, the verb before it, and URI and run behind it. Each tool has
// the command of its name.
var toolCall = regexp.MustCompile(`\b(call(?:ing)? )?(` + strings.Join(toolset.Names(), "|") + `)\b(?: with (kairos://mem/[0-9a-f-]{36})(?: and run_id ([0-9a-f-]{36}))?)?`)
