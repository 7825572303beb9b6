package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestHiddenCharactersAreAWarning(t *testing.T) {
	chains, found := protocol.Parse([]byte("---\ndescription: Ships\u200b it.\n---\n# Dep\u202eloy\n\nAbout\u200b it.\n\n```json\n{\"inputs\":{\"properties\":{\"a\":{\"description\":\"\\u00ad\"}}}}\n```\n\n" +
		"## Fine\n\nA family: 👩\u200d👩\u200d👧, and می\u200cخواهم.\n\n## Text\n\none\ntwo \U000e0041\U000e0042\n\n" +
		"## Command\n\n```json\n{\"challenge\": {\"type\": \"shell\",\n  \"shell\": {\"cmd\": \"rm \\u202ex\"}}}\n```\n"))
	if len(found) > 0 || len(chains) != 1 {
		t.Fatalf("Parse = %d chains, %v", len(chains), found)
	}
	var got []string
	for _, d := range protocol.CheckHidden(chains[0]) {
		if d.Severity != driver.SeverityWarning {
			t.Errorf("%s is of severity %s", d, d.Severity)
		}
		got = append(got, fmt.Sprint(d.Line, " ", d.Step, d.Pointer, " ", strings.SplitN(d.Message, ":", 2)[0]))
	}
	if diff := cmp.Diff([]string{
		"1  the title has hidden characters (U+202E)",
		"1  the description of the front matter has hidden characters (U+200B)",
		"1  the description has hidden characters (U+200B)",
		"1 /inputs/properties/a/description the declaration of inputs has hidden characters (U+00AD)",
		"19 Text the text of the step has hidden characters (U+E0041, U+E0042)",
		"25 Command/shell/cmd the value has hidden characters (U+202E)",
	}, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
