package quality_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/library/quality"
)

func TestPlainStepsHaveTheObservedGrades(t *testing.T) {
	for name, text := range map[string]string{
		"a line":           "## Step One\n\nSecond body",
		"a bare heading":   "## Commit",
		"prose":            "## Write the summary\n\nWrite three sentences about the meeting and send them to the team.",
		"a command":        "## Run the tests\n\nRun `make test` and read what it prints.",
		"another language": "## Entwurf prüfen\n\nZeige den Entwurf und frage nach.",
	} {
		t.Run(name, func(t *testing.T) {
			m := quality.Assess(text)
			for what, pair := range map[string][2]quality.Grade{
				"stored":    {m.Stored(), {Score: 2, Tier: quality.Standard}},
				"succeeded": {m.Succeeded(), {Score: 6, Tier: quality.Excellent}},
				"failed":    {m.Failed(), {Score: 1, Tier: quality.Basic}},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s: %+v with %+v, want %+v", what, pair[0], m, pair[1])
				}
			}
		})
	}
}

func TestEveryScaleMovesBothWays(t *testing.T) {
	plain := quality.Assess("## Do it\n\nDo the work.")
	if plain != (quality.Measure{Specificity: 5, ExpertValue: 5, Breadth: 5, Longevity: 5}) {
		t.Fatalf("a plain text measures %+v, want 5 on every scale", plain)
	}
	for name, tc := range map[string]struct {
		scale      func(quality.Measure) int
		good, poor string
	}{
		"specificity":  {func(m quality.Measure) int { return m.Specificity }, "Run `go vet` and wait 30 s.", "Do something, etc."},
		"expert value": {func(m quality.Measure) int { return m.ExpertValue }, "Never skip it, because the lock stays.", "TODO: foo bar."},
		"breadth":      {func(m quality.Measure) int { return m.Breadth }, "Any client will do, for example curl.", "Open /home/me/notes on localhost."},
		"longevity":    {func(m quality.Measure) int { return m.Longevity }, "The invariant must hold.", "A temporary workaround until 2026-01-02."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.scale(quality.Assess(tc.good)); got <= 5 {
				t.Errorf("Assess(%q) = %d, want more than 5", tc.good, got)
			}
			if got := tc.scale(quality.Assess(tc.poor)); got >= 5 {
				t.Errorf("Assess(%q) = %d, want less than 5", tc.poor, got)
			}
		})
	}
}

func TestGradesStayInBoundsAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.SampledFrom([]string{
			"never", "something", "`x`", "today", "must", "etc.", "because", "/home/a/b", "any", "\n", "```", "TODO", "ünïcode", "30 s",
		})).Draw(t, "words")
		m := quality.Assess(strings.Join(words, " "))
		for _, v := range []int{m.Specificity, m.ExpertValue, m.Breadth, m.Longevity} {
			if v < 0 || v > 10 {
				t.Fatalf("%+v leaves 0..10", m)
			}
		}
		if f, s, w := m.Failed().Score, m.Stored().Score, m.Succeeded().Score; f < 0 || f > s || s >= w {
			t.Fatalf("scores %d failed, %d stored, %d succeeded: want them to rise", f, s, w)
		}
	})
}

func TestTiersFollowTheTotal(t *testing.T) {
	for total, want := range map[int][3]quality.Tier{ // stored, succeeded, failed
		40: {quality.High, quality.Excellent, quality.Standard},
		35: {quality.High, quality.Excellent, quality.Basic},
		20: {quality.Standard, quality.Excellent, quality.Basic},
		13: {quality.Basic, quality.High, quality.Basic},
		7:  {quality.Basic, quality.Standard, quality.Basic},
		0:  {quality.Basic, quality.Basic, quality.Basic},
	} {
		m := quality.Measure{Specificity: total}
		if got := [3]quality.Tier{m.Stored().Tier, m.Succeeded().Tier, m.Failed().Tier}; got != want {
			t.Errorf("total %d: %v, want %v", total, got, want)
		}
	}
}

func TestTaskAndType(t *testing.T) {
	for text, want := range map[string][2]string{
		"## Open the firewall\n\nAllow the proxy.":          {"networking", quality.Context},
		"## Rotate the password\n\nIt must be long.":        {"security", quality.Rule},
		"## Speed\n\nBenchmark and profile.":                {"optimization", quality.Context},
		"## Debug\n\nFind the root cause.":                  {"troubleshooting", quality.Context},
		"## Handle errors\n\n```go\nreturn err\n```":        {"error-handling", quality.Pattern},
		"## Install it\n\nDownload it.":                     {"installation", quality.Context},
		"## Configure\n\nChange the settings.":              {"configuration", quality.Context},
		"## Run the tests\n\nNever skip one.":               {"testing", quality.Rule},
		"## Deploy\n\nRelease it to production.":            {"deployment", quality.Context},
		"## Back up\n\nDump the database. The SQL is kept.": {"database", quality.Context},
		"## Greet\n\nSay hello. The latest fashion.":        {quality.General, quality.Context},
		"## Builder\n\nUse the pattern.":                    {quality.General, quality.Pattern},
		"":                                                  {quality.General, quality.Context},
	} {
		if got := [2]string{quality.Task(text), quality.Type(text)}; got != want {
			t.Errorf("Task, Type of %q = %v, want %v", text, got, want)
		}
	}
}
