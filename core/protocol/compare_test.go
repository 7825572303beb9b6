package protocol

import (
	"strings"
	"testing"
)

func TestChangesShowTheValueThatChangedInAChallengeOnOneLine(t *testing.T) {
	doc := func(cmd string) string {
		return "# T\n\n## S\n\n{not JSON}\n\n```json\n{\"challenge\": {\"type\": \"shell\", \"shell\": {\"cmd\": \"" + cmd + "\", \"timeout_seconds\": 1.50}}}\n```\n"
	}
	diff := Changes("a", "b", doc("make"), doc("make all"))
	for _, want := range []string{"-      \"cmd\": \"make\",\n+      \"cmd\": \"make all\",\n", "       \"timeout_seconds\": 1.50\n"} {
		if !strings.Contains(diff, want) {
			t.Errorf("the diff is\n%s\nwant %q in it", diff, want)
		}
	}
	if strings.Contains(diff, "not JSON") && !strings.Contains(diff, "\n {not JSON}\n") {
		t.Errorf("a line that is not JSON changed:\n%s", diff)
	}
	if diff := Changes("a", "b", doc("make"), doc("make")); diff != "" {
		t.Errorf("the same document differs:\n%s", diff)
	}
	if diff := Changes("a", "b", doc("make"), strings.Replace(doc("make"), `{"challenge": {`, `{ "challenge":{`, 1)); !strings.Contains(diff, `+{ "challenge":{`) {
		t.Errorf("other blanks are not shown:\n%s", diff)
	}
}
