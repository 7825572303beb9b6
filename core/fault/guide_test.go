package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Guide is what agents read about the codes, as Markdown. Codes with the same
// meaning for an agent share a line.
func Guide() string {
	var b strings.Builder
	b.WriteString(`# Error codes

Every reply that reports a problem has ` + "`error_code`, `message`, `tried` and `next_action`" + `, and where one call helps,
` + "`next_call`. `kairos_mint` gives its code as `error`" + `, too.

In a run the step stays open; nothing is lost.

`)
	guideRows(&b, inRun)
	b.WriteString("\nElsewhere the call did nothing, unless `message` says more.\n\n")
	guideRows(&b, inCall)
	b.WriteString("\nDrivers may have codes of their own.\n")
	return b.String()
}

func guideRows(b *strings.Builder, rows []Row) {
	b.WriteString("| code | meaning | do |\n|---|---|---|\n")
	for _, group := range grouped(rows, func(r Row) string { return r.Advice }) {
		var meanings []string
		for _, r := range group {
			if !slices.Contains(meanings, r.Meaning) {
				meanings = append(meanings, r.Meaning)
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", codes(group), strings.Join(meanings, "; or "), group[0].Advice)
	}
}

// Reference is what people read about the codes, as Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString("| code | counted | status | meaning | what to do |\n|---|---|---|---|---|\n")
	driver := ofDriver
	driver.Code = "word_list.WORD_MISSING"
	for _, r := range slices.Concat(inRun, []Row{driver}, inCall, inRequest, ofClient) {
		status := "–"
		if r.Status > 0 {
			status = strconv.Itoa(r.Status)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Code, cmp.Or(r.Counted, "–"), status, r.Meaning, r.Hint)
	}
	return b.String()
}

// grouped puts rows with the same key together, in the order of the first of each.
func grouped(rows []Row, key func(Row) string) (groups [][]Row) {
	for _, r := range rows {
		i := slices.IndexFunc(groups, func(g []Row) bool { return key(g[0]) == key(r) })
		if i < 0 {
			groups = append(groups, []Row{r})
			continue
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

func codes(rows []Row) string {
	var names []string
	for _, r := range rows {
		names = append(names, "`"+string(r.Code)+"`")
	}
	return strings.Join(names, ", ")
}
