package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/e2e/forgery"
)

const (
	forgeryCommand = "go test ./docs -run Forgery -update"
	forgeryBegin   = "<!-- forgery: written by " + forgeryCommand + " -->\n"
	forgeryEnd     = "<!-- end of forgery -->\n"
)

func TestForgeryPageIsWhatTheAttacksAre(t *testing.T) {
	generated(t, "reference/forgery.md", forgery.Page(), forgeryCommand)
	const readme = "../README.md"
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), forgeryBegin)
	_, after, ends := strings.Cut(rest, forgeryEnd)
	if !begins || !ends {
		t.Fatalf("%s lacks %q or %q", readme, forgeryBegin, forgeryEnd)
	}
	generated(t, readme, before+forgeryBegin+"\n"+forgery.Summary()+"\n"+forgery.Losses()+"\n"+forgeryEnd+after, forgeryCommand)
}
