package clients

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Page is the page of the manual about the programs and what they do.
func Page() string {
	all := Read()
	var b strings.Builder
	b.WriteString(`# Agent programs that are tested

Which agent programs work with KAIROS, in which situations, and what each costs its model. Each program was started without a person, as a
script starts it, and connected as ` + "`kairos connect NAME --write`" + ` does. Its model was a script on loopback that follows ` + "`next_call`" + ` exactly, so
the table is about the programs, not about models. In its own window a program can do more: most show forms there.

` + "`make test-clients`" + ` tests all programs in all situations, ` + "`make test-clients CLIENTS=codex@latest`" + ` tests a newer version of one. A result that
differs from this page fails. ` + "`make test-e2e`" + ` tests Claude Code, Codex and Gemini CLI in the situations that found faults. The page is generated from
[the record](../../e2e/clients/recorded.yaml): ` + "`go test ./docs -run AgentPrograms -update`" + `.

## What works

`)
	names := slices.SortedFunc(maps.Keys(all.Programs), func(a, b string) int { return cmp.Compare(all.Programs[a].Title, all.Programs[b].Title) })
	fmt.Fprintf(&b, "| situation | %s |\n|---|%s\n", strings.Join(each(names, func(n string) string { return all.Programs[n].Title }), " | "), strings.Repeat("---|", len(names)))
	fmt.Fprintf(&b, "| version | %s |\n", strings.Join(each(names, func(n string) string { return all.Programs[n].Version }), " | "))
	fmt.Fprintf(&b, "| tested | %s |\n", strings.Join(each(names, func(n string) string { return all.Programs[n].Played }), " | "))
	for _, s := range all.Situations {
		fmt.Fprintf(&b, "| %s | %s |\n", s.Title, strings.Join(each(names, func(n string) string { return cmp.Or(all.Programs[n].Cells[s.Name], "not tested") }), " | "))
	}
	b.WriteString("\n| situation | what happens |\n|---|---|\n")
	for _, s := range all.Situations {
		fmt.Fprintf(&b, "| %s | %s |\n", s.Title, s.Says)
	}
	b.WriteString("\n## Limits\n\n| limit | what it means | cause |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all.Limits)) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, all.Limits[name].Says, all.Limits[name].Cause)
	}
	b.WriteString(`
## What it costs the model

A token is counted as four bytes. The tools are as the program passes them to its model, the replies are those of a run of two commands, as the
model reads them. A program that shows a tool by name only loads its schema when the model asks for it.

| program | tools shown | by name only | tokens of tools | tokens of replies | instructions of the server |
|---|---|---|---|---|---|
`)
	for _, n := range names {
		r := all.Programs[n]
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %s |\n", r.Title, r.Tools, r.Deferred, r.ToolBytes/bytesPerToken, r.ReplyBytes/bytesPerToken, r.Instructions)
	}
	return b.String()
}

const bytesPerToken = 4

func each(names []string, of func(name string) string) []string {
	texts := make([]string, 0, len(names))
	for _, n := range names {
		texts = append(texts, of(n))
	}
	return texts
}
