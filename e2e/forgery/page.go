package forgery

import (
	"fmt"
	"strings"
)

// Page is the page of the manual about the attacks and their outcomes.
func Page() string {
	var b strings.Builder
	b.WriteString(`# Forging a record

What is a record of an agent's work worth? These attacks try to get one accepted that claims something that did not happen. Each
is played against the real programs, and each outcome is computed from facts outside KAIROS: the file of a calendar, and files that
commands leave behind. The list and the expected outcomes were written before the drivers that look by themselves.

` + "`make test-forgery`" + ` plays them all and prints the table; a deviation from this page fails. The page is generated from
[the list](../../e2e/forgery/attacks.yaml): ` + "`go test ./docs -run Forgery -update`" + `.

## Scoring

The attacker *wins* if the record is accepted although what it claims did not happen, or claims more than happened. Otherwise the
attacker *fails*: the record is refused, or what it claims is true. Four kinds of records of the same procedures are compared:

| record | when it is accepted |
|---|---|
`)
	for _, r := range Records {
		fmt.Fprintf(&b, "| %s | %s |\n", r.Record, r.Rule)
	}
	fmt.Fprintf(&b, "\n## Outcomes\n\n%s\n", Summary())
	outcomes(&b, "")
	b.WriteString("\nHeld-out attacks, against which KAIROS was not built: they were invented afterwards.\n")
	outcomes(&b, HeldOut)
	b.WriteString("\nAttacks that independent attackers found and reproduced. The outcomes are those of today, with what was done about them.\n")
	outcomes(&b, Outside)
	b.WriteString("\n## What is lost\n\nThese attacks win although KAIROS looks itself.\n\n| attack | why, and what helps |\n|---|---|\n")
	for _, a := range All() {
		if a.Lost != "" {
			fmt.Fprintf(&b, "| %s | %s |\n", a.Name, a.Lost)
		}
	}
	byLogin(&b)
	b.WriteString("\n## The attacks\n")
	for _, a := range All() {
		fmt.Fprintf(&b, "\n### %s\n\nThe attacker: %s. %s What decides: %s. The attacker wins if %s.\n", upper(a.Name), a.Has, a.Does, a.Truth, a.Wins)
	}
	return b.String()
}

// byLogin is the section about approvals that demand a login.
func byLogin(b *strings.Builder) {
	b.WriteString("\n## An approval by login\n\nWhat is an approval worth that a rule or a step demands [by login](../how-to/two-pairs-of-eyes.md)? The agent has a token, the link of the approval, and what the table says. It wins if\n" +
		"its run continues with an approval that the person did not give. `go test ./cmd/kairos -run ApprovalByLogin` plays each against the real program; where it is not root it skips those of another account.\n\n" +
		"| attack | the attacker has | it | outcome |\n|---|---|---|---|\n")
	var lost []string
	for _, a := range Logins() {
		outcome := "fails"
		if a.Expected == Wins {
			outcome = "**wins**"
			lost = append(lost, fmt.Sprintf("*%s* is lost: %s\n", upper(a.Name), a.Lost))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", a.Name, a.Has, a.Does, outcome)
	}
	b.WriteString("\n" + strings.Join(lost, "\n"))
}

// outcomes is the table of the attacks that come from there, a line for each.
func outcomes(b *strings.Builder, from string) {
	b.WriteString("\n| attack |")
	for _, r := range Records {
		fmt.Fprintf(b, " %s |", r.Record)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Records)) + "\n")
	for _, a := range All() {
		if a.From != from {
			continue
		}
		fmt.Fprintf(b, "| %s |", a.Name)
		for _, o := range a.Expected {
			if o == Wins {
				b.WriteString(" **wins** |")
			} else {
				b.WriteString(" fails |")
			}
		}
		b.WriteString("\n")
	}
}

// Summary counts how often the attacker wins, as a table.
func Summary() string {
	var b strings.Builder
	b.WriteString("| record | the attacker wins |\n|---|---|\n")
	for i, r := range Records {
		wins := 0
		for _, a := range All() {
			if a.Expected[i] == Wins {
				wins++
			}
		}
		fmt.Fprintf(&b, "| %s | %d of %d |\n", r.Record, wins, len(All()))
	}
	return b.String()
}

// Losses names the attacks that win although KAIROS looks itself, as a sentence.
func Losses() string {
	var names []string
	for _, a := range All() {
		if a.Lost != "" {
			names = append(names, a.Name)
		}
	}
	return fmt.Sprintf("These win although it looks itself, each with what helps on the page: %s.\n", strings.Join(names, "; "))
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
