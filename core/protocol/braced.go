package protocol

import "strings"

// eachBraced visits the parts of a text in double braces without braces inside, in
// order, until visit returns false. Only such a part can be a template: the expression
// is not run over the rest of a text, which may have megabytes.
func eachBraced(text string, visit func(start, end int) bool) {
	for at := 0; ; {
		open := strings.Index(text[at:], "{{")
		if open < 0 {
			return
		}
		for at += open + len("{{"); at < len(text) && text[at] == '{'; at++ { // the last two braces of a row begin it
		}
		inside := strings.IndexAny(text[at:], "{}")
		if inside < 0 {
			return
		}
		start := at - len("{{")
		if at += inside; strings.HasPrefix(text[at:], "}}") {
			if at += len("}}"); !visit(start, at) {
				return
			}
		}
	}
}

// templatesIn returns the matches of templatePattern as FindAllStringSubmatchIndex
// does, at most this many; negative: all.
func templatesIn(text string, most int) (found [][]int) {
	eachBraced(text, func(start, end int) bool {
		if most >= 0 && len(found) >= most {
			return false
		}
		m := templatePattern.FindStringSubmatchIndex(text[start:end])
		for i := range m {
			if m[i] >= 0 {
				m[i] += start
			}
		}
		if m != nil {
			found = append(found, m)
		}
		return true
	})
	return found
}
