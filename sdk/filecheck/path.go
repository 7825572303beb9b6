package filecheck

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of names.
const (
	maxPath  = 1024 // bytes of a path, a glob or a root
	maxDeep  = 4    // how often ** may stand in a glob
	maxRoots = 16
	wildDeep = "**"
)

// badPath says why a text is not a path below a root, or nothing.
func badPath(text string) string {
	switch {
	case len(text) > maxPath:
		return fmt.Sprintf("must have at most %d bytes", maxPath)
	case badText(text):
		return "must be readable text without control characters"
	case strings.Contains(text, `\`):
		return `must have slashes (/) between its parts, no backslashes`
	case strings.HasPrefix(text, "/"):
		return "must be relative to a root, not absolute"
	case text == "" || text == "." || !fs.ValidPath(text):
		return `must name a file below a root: no empty part, no "." and no ".."`
	}
	return ""
}

func badText(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl)
}

// Pattern is a glob: parts between slashes, each matched as package path does
// (* ? [a-z]); a part ** matches any number of folders. Matching is exact:
// case counts, and so does a leading dot, which * matches, too.
type Pattern struct{ parts []string }

func readPattern(text string) (Pattern, string) {
	if why := badPath(text); why != "" {
		return Pattern{}, why
	}
	p := Pattern{parts: strings.Split(text, "/")}
	deep := 0
	for _, part := range p.parts {
		if _, err := path.Match(part, ""); err != nil {
			return Pattern{}, fmt.Sprintf("the part %q is not a pattern: a bracket is not closed or empty", part)
		}
		switch {
		case part == wildDeep:
			deep++
		case strings.Contains(part, wildDeep):
			return Pattern{}, "** must stand alone between slashes"
		}
	}
	if deep > maxDeep {
		return Pattern{}, fmt.Sprintf("** may stand in it at most %d times", maxDeep)
	}
	if p.parts[len(p.parts)-1] == wildDeep {
		return Pattern{}, "must end in the name of a file, such as **/*"
	}
	return p, ""
}

// String is the glob as it was written; the zero Pattern has none.
func (p Pattern) String() string { return strings.Join(p.parts, "/") }

// Walk is where in a pattern one stands below some folders: what may still
// follow. The zero Walk matches nothing.
type Walk struct {
	pattern Pattern
	at      []int // indices of parts that may match the next name, sorted
}

// Start is where a walk begins, in a root.
func (p Pattern) Start() Walk { return Walk{pattern: p, at: p.skipping([]int{0})} }

// skipping adds the places behind a **, which may match no folder at all.
func (p Pattern) skipping(at []int) []int {
	for i := 0; i < len(at); i++ {
		if at[i] < len(p.parts) && p.parts[at[i]] == wildDeep {
			at = append(at, at[i]+1)
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// Enter is the walk inside the folder of that name. It is over when Over says so.
func (w Walk) Enter(name string) Walk {
	var next []int
	for _, i := range w.at {
		switch {
		case i >= len(w.pattern.parts):
		case w.pattern.parts[i] == wildDeep:
			next = append(next, i)
		case matches(w.pattern.parts[i], name):
			next = append(next, i+1)
		}
	}
	next = slices.DeleteFunc(next, func(i int) bool { return i >= len(w.pattern.parts) })
	return Walk{pattern: w.pattern, at: w.pattern.skipping(next)}
}

// Over reports that nothing below can match.
func (w Walk) Over() bool { return len(w.at) == 0 }

// Takes reports whether a file of that name, here, matches the whole pattern.
func (w Walk) Takes(name string) bool {
	last := len(w.pattern.parts) - 1
	return last >= 0 && slices.Contains(w.at, last) && matches(w.pattern.parts[last], name)
}

// Only is the one name that can match here, empty where several can: then
// nobody has to list a folder.
func (w Walk) Only() string {
	if len(w.at) != 1 || strings.ContainsAny(w.pattern.parts[w.at[0]], `*?[\`) {
		return ""
	}
	return w.pattern.parts[w.at[0]]
}

func matches(part, name string) bool {
	ok, err := path.Match(part, name)
	return ok && err == nil
}

// Match reports whether the pattern matches a path.
func (p Pattern) Match(name string) bool {
	if badPath(name) != "" {
		return false
	}
	parts := strings.Split(name, "/")
	w := p.Start()
	for _, folder := range parts[:len(parts)-1] {
		w = w.Enter(folder)
	}
	return w.Takes(parts[len(parts)-1])
}

// Root reads what names a root: an absolute path or a file URI of this machine.
// It returns the clean absolute path. Whether there is such a folder is not
// looked at.
func Root(text string) (string, error) {
	name := text
	scheme, rest, ok := strings.Cut(text, ":")
	if ok && (strings.HasPrefix(rest, "//") || strings.EqualFold(scheme, "file") && strings.HasPrefix(rest, "/")) {
		u, err := url.Parse(text)
		switch {
		case err != nil:
			return "", fmt.Errorf("root %.200q: not a URI; a %% in a name is written %%25", text)
		case !strings.EqualFold(scheme, "file"):
			return "", fmt.Errorf("root %.200q: only file URIs name folders", text)
		case u.Host != "" && !strings.EqualFold(u.Host, "localhost"):
			return "", fmt.Errorf("root %.200q: is on another machine", text)
		case u.RawQuery != "" || u.Fragment != "":
			return "", fmt.Errorf("root %.200q: a file URI has neither ? nor #; write %%3F and %%23", text)
		}
		name = u.Path
	}
	switch {
	case len(text) > maxPath:
		return "", fmt.Errorf("root %.200q…: must have at most %d bytes", text, maxPath)
	case badText(name):
		return "", fmt.Errorf("root %.200q: must be readable text without control characters", text)
	case !filepath.IsAbs(name):
		return "", fmt.Errorf("root %.200q: must be an absolute path or a file URI", text)
	}
	return filepath.Clean(name), nil
}

// Roots reads a list of roots, without doubles.
func Roots(texts []string) ([]string, error) {
	if len(texts) > maxRoots {
		return nil, fmt.Errorf("there are %d roots, at most %d are taken", len(texts), maxRoots)
	}
	var out []string
	for _, text := range texts {
		root, err := Root(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, root) {
			out = append(out, root)
		}
	}
	return out, nil
}
