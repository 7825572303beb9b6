package docs_test

import (
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"
)

var stepHeading = regexp.MustCompile(`(?m)^## (.+)$`)

// TestTheRecordingShowsTheExample: the picture in the README was made from the
// example as it is now, and played to its end.
func TestTheRecordingShowsTheExample(t *testing.T) {
	picture, err := os.ReadFile("img/run.svg")
	if err != nil {
		t.Fatal(err)
	}
	protocol, err := os.ReadFile("../examples/release-a-version.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := stepHeading.FindAllStringSubmatch(string(protocol), -1)
	if len(steps) < 3 {
		t.Fatalf("the example has %d steps; the test looks in the wrong place", len(steps))
	}
	want := []string{"verified: 2 steps answered by you, 3 reported by the agent"}
	for i, s := range steps {
		want = append(want, fmt.Sprintf("Step %d of %d: %s", i+1, len(steps), s[1]))
	}
	text := html.UnescapeString(string(picture))
	for _, line := range want {
		if !strings.Contains(text, line) {
			t.Errorf("img/run.svg does not show %q: go run ./docs/recording plays it anew", line)
		}
	}
}
