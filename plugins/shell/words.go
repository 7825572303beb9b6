package main

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// maxBraces is how many words the braces of one word may make.
const maxBraces = 64

// wordsOf are the words of a command, without quotes and with the braces expanded.
// Variables, patterns and substitutions stay as they are written.
func wordsOf(words []*syntax.Word) []string {
	var out []string
	for w := range expanded(words) {
		out = append(out, wordOf(w))
	}
	return out
}

// expanded yields the words with their braces expanded.
func expanded(words []*syntax.Word) iter.Seq[*syntax.Word] {
	return func(yield func(*syntax.Word) bool) {
		for _, w := range words {
			split := &syntax.Word{Parts: slices.Clone(w.Parts)} // SplitBraces changes it
			one := []*syntax.Word{w}
			if syntax.SplitBraces(split) && alternatives(split) <= maxBraces {
				one = expand.Braces(split)
			}
			for _, each := range one {
				if !yield(each) {
					return
				}
			}
		}
	}
}

// alternatives is how many words the braces of a word make, or more than maxBraces.
func alternatives(w *syntax.Word) int {
	n := 1
	for _, p := range w.Parts {
		braces, ok := p.(*syntax.BraceExp)
		switch {
		case !ok:
			continue
		case braces.Sequence:
			return maxBraces + 1
		}
		sum := 0
		for _, e := range braces.Elems {
			sum = min(sum+alternatives(e), maxBraces+1)
		}
		n = min(n*sum, maxBraces+1)
	}
	return n
}

func wordOf(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	var b strings.Builder
	appendParts(&b, w.Parts, false)
	return b.String()
}

// appendParts appends the parts of a word. A backslash may stand in another literal
// than what it escapes.
func appendParts(b *strings.Builder, parts []syntax.WordPart, quoted bool) {
	literal := ""
	for _, p := range parts {
		if lit, ok := p.(*syntax.Lit); ok {
			literal += lit.Value
			continue
		}
		b.WriteString(unescaped(literal, quoted))
		literal = ""
		appendPart(b, p)
	}
	b.WriteString(unescaped(literal, quoted))
}

// appendPart appends a part of a word as the shell takes it.
func appendPart(b *strings.Builder, p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.SglQuoted:
		text := p.Value
		if p.Dollar {
			if decoded, _, err := expand.Format(nil, text, nil); err == nil {
				text = decoded
			}
		}
		b.WriteString(text)
	case *syntax.DblQuoted:
		appendParts(b, p.Parts, true)
	case *syntax.ParamExp:
		if text := printed(p); p.Param != nil && text == "${"+p.Param.Value+"}" {
			b.WriteString("$" + p.Param.Value)
		} else {
			b.WriteString(text)
		}
	case *syntax.CmdSubst:
		b.WriteString("$()") // its commands are parts of their own
	default:
		b.WriteString(printed(p))
	}
}

// unescaped is a literal without its backslashes. Between quotation marks only some
// of them escape anything.
func unescaped(text string, quoted bool) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (!quoted || strings.IndexByte("$`\"\\\n", text[i+1]) >= 0) {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// program is the name of a program without the usual folders in front of it.
func program(name string) string {
	for _, folder := range []string{"/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/"} {
		if rest, found := strings.CutPrefix(name, folder); found && rest != "" && !strings.Contains(rest, "/") {
			return rest
		}
	}
	return name
}

var (
	shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true}
	// wrappers run the command behind them, perhaps behind options and variables.
	wrappers = map[string]bool{
		"command": true, "builtin": true, "exec": true, "nohup": true, "env": true, "sudo": true, "doas": true, "nice": true, "setsid": true, "xargs": true,
		"timeout": true, "time": true, "stdbuf": true, "ionice": true, "chroot": true,
	}
)

// findRuns are the actions of find that run the command behind them.
var findRuns = map[string]bool{"-exec": true, "-execdir": true, "-ok": true, "-okdir": true}

// within is what a command runs: the arguments of eval, the script of a shell, the
// command of a wrapper; empty if it runs nothing, or nothing that can be read.
func within(words []string) []string {
	rest := words[1:]
	switch {
	case words[0] == "eval":
		return rest
	case shells[words[0]]:
		at := slices.IndexFunc(rest, func(w string) bool {
			return strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.HasSuffix(w, "c")
		})
		if at >= 0 && at+1 < len(rest) {
			return rest[at+1 : at+2]
		}
		return nil
	case wrappers[words[0]]:
		for len(rest) > 0 && (strings.HasPrefix(rest[0], "-") || strings.Contains(rest[0], "=")) {
			rest = rest[1:]
		}
		return slices.Clone(rest)
	case words[0] == "find":
		if at := slices.IndexFunc(rest, func(w string) bool { return findRuns[w] }); at >= 0 {
			return slices.Clone(rest[at+1:])
		}
	}
	return nil
}

// flag is the letter of an option and its long names.
type flag struct {
	letter byte
	long   []string
}

// switches are options that take no value, by program. Where all options of a command
// are among these, their order, their bundling and their place do not matter.
var switches = map[string][]flag{
	"rm": {
		{'r', []string{"recursive"}}, {'R', []string{"recursive"}}, {'f', []string{"force"}}, {'v', []string{"verbose"}}, {'d', []string{"dir"}}, {'i', nil}, {'I', nil},
	},
	"rmdir": {{'p', []string{"parents"}}, {'v', []string{"verbose"}}},
	"cp": {
		{'r', []string{"recursive"}}, {'R', []string{"recursive"}}, {'f', []string{"force"}}, {'a', []string{"archive"}}, {'v', []string{"verbose"}},
		{'n', []string{"no-clobber"}}, {'i', []string{"interactive"}}, {'p', nil}, {'u', nil},
	},
	"mv":    {{'f', []string{"force"}}, {'v', []string{"verbose"}}, {'n', []string{"no-clobber"}}, {'i', []string{"interactive"}}, {'u', nil}},
	"chmod": {{'R', []string{"recursive"}}, {'v', []string{"verbose"}}, {'f', []string{"silent", "quiet"}}, {'c', []string{"changes"}}},
	"chown": {{'R', []string{"recursive"}}, {'v', []string{"verbose"}}, {'f', []string{"silent", "quiet"}}, {'c', []string{"changes"}}, {'h', []string{"no-dereference"}}},
}

// withFlags is a command with its options in one form.
func withFlags(words []string) []string {
	if known, ok := switches[words[0]]; ok {
		if one, ok := switched(words, known); ok {
			return one
		}
	}
	out := []string{words[0]}
	letters := false // the last word is a bundle of single letters
	for i, w := range words[1:] {
		single := len(w) == 2 && w[0] == '-' && isLetter(w[1])
		switch {
		case w == "--":
			return append(out, words[1+i:]...)
		case single && letters:
			out[len(out)-1] += w[1:]
		default:
			out = append(out, w)
		}
		letters = single
	}
	return out
}

// switched is a command whose options are all known: the letters once and sorted, then
// the operands; false: one is not known.
func switched(words []string, known []flag) ([]string, bool) {
	letters := map[byte]bool{}
	var operands []string
	for i, w := range words[1:] {
		if w == "--" {
			operands = append(operands, words[2+i:]...)
			break
		}
		if len(w) < 2 || w[0] != '-' {
			operands = append(operands, w)
			continue
		}
		if !note(w, known, letters) {
			return nil, false
		}
	}
	if letters['R'] && (words[0] == "rm" || words[0] == "cp") {
		delete(letters, 'R')
		letters['r'] = true
	}
	all := slices.Sorted(maps.Keys(letters))
	return append([]string{words[0], "-" + string(all)}, operands...), true
}

// note notes the letters of an option; false: it is not known.
func note(option string, known []flag, letters map[byte]bool) bool {
	if long, ok := strings.CutPrefix(option, "--"); ok {
		at := slices.IndexFunc(known, func(f flag) bool { return slices.Contains(f.long, long) })
		if at >= 0 {
			letters[known[at].letter] = true
		}
		return at >= 0
	}
	for i := 1; i < len(option); i++ {
		if !slices.ContainsFunc(known, func(f flag) bool { return f.letter == option[i] }) {
			return false
		}
		letters[option[i]] = true
	}
	return true
}

func isLetter(b byte) bool { return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' }
