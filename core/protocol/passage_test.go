package protocol_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/core/protocol"
)

func TestPassageSaysWhatTheStepIsAbout(t *testing.T) {
	c := protocol.Chain{
		Title: "Rotate keys", AltTitle: "Key rotation", Slug: "rotate-keys", Tags: []string{"ops", "security"},
		Triggers: []string{"a key has leaked", "Schlüssel tauschen"}, Summary: "Needed once a year.",
		Steps: []protocol.Step{
			{Label: "Find", Text: "## Find\n\nList them."},
			{Label: "No heading", Text: "Only prose"},
			{Label: "Bare", Text: "## Bare"},
		},
	}
	for i, want := range []string{
		"Rotate keys\nKey rotation\nrotate-keys\na key has leaked\nSchlüssel tauschen\nNeeded once a year.\nops, security\nFind\nList them.",
		"Rotate keys\nKey rotation\nrotate-keys\na key has leaked\nSchlüssel tauschen\nNeeded once a year.\nops, security\nNo heading\nOnly prose",
		"Rotate keys\nKey rotation\nrotate-keys\na key has leaked\nSchlüssel tauschen\nNeeded once a year.\nops, security\nBare",
	} {
		if got := c.Passage(i); got != want {
			t.Errorf("Passage(%d) = %q, want %q", i, got, want)
		}
	}
}

func TestPassagesAreBoundedInCharacters(t *testing.T) {
	c := protocol.Chain{Title: "T", Steps: []protocol.Step{{Label: "L", Text: strings.Repeat("ż", 20_000)}}}
	got := c.Passage(0)
	if n := utf8.RuneCountInString(got); n != 8000 || !utf8.ValidString(got) {
		t.Errorf("Passage has %d characters (valid UTF-8: %v), want 8000", n, utf8.ValidString(got))
	}
}

func TestPassageHashIsSHA256(t *testing.T) {
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := protocol.PassageHash("abc"); got != abc {
		t.Errorf("PassageHash(abc) = %s, want %s", got, abc)
	}
}
