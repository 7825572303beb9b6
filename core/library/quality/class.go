package quality

import "strings"

// tasks are the kinds of work a step may be about, the narrower first, with
// the beginnings of the words that tell.
var tasks = [...]struct {
	name  string
	stems []string // lower case
}{
	{"networking", []string{"network", "dns", "firewall", "proxy", "router", "subnet", "tls handshake", "load balanc"}},
	{"security", []string{"secur", "credential", "password", "secret", "encrypt", "certificat", "vulnerab", "permission", "authenti", "authori"}},
	{"optimization", []string{"optimi", "performance", "benchmark", "profil", "latency", "throughput", "cache", "caching"}},
	{"troubleshooting", []string{"troubleshoot", "debug", "diagnos", "investigat", "root cause", "incident"}},
	{"error-handling", []string{"error", "exception", "retry", "retries", "fallback", "panic"}},
	{"installation", []string{"install", "upgrade", "download", "set up", "setup"}},
	{"configuration", []string{"config", "setting", "environment variable", "parameter"}},
	{"testing", []string{"test", "assert", "coverage", "verify", "verification"}},
	{"deployment", []string{"deploy", "release", "rollout", "roll out", "publish", "ship", "kubernetes", "docker"}},
	{"database", []string{"database", "sql", "migration", "schema", "query", "backup", "restore"}},
}

// General is the task of a step that is about none of the known ones.
const General = "general"

// stem is the beginning of a word that speaks for a task.
type stem struct {
	text string
	task int // index of tasks
}

// stemsBy are the stems by their first letters.
var stemsBy = func() (by [256][]stem) {
	for i, t := range tasks {
		for _, s := range t.stems {
			by[s[0]] = append(by[s[0]], stem{s, i})
		}
	}
	return by
}()

// Task is what kind of work the text is about: the kind with the most words in
// the text, the heading counting three times, else General. A program that
// stores many steps asks it of each, so it reads the text once.
func Task(text string) string {
	text = lower(head(text))
	heading, _, _ := strings.Cut(text, "\n")
	var n [len(tasks)]int
	for i := range len(text) {
		if !wordByte(text[i]) || i > 0 && wordByte(text[i-1]) {
			continue
		}
		seen := -1 // a word speaks once for a task; its stems stand together
		for _, s := range stemsBy[text[i]] {
			if s.task == seen || !strings.HasPrefix(text[i:], s.text) {
				continue
			}
			seen = s.task
			if n[s.task]++; i < len(heading) {
				n[s.task] += 2
			}
		}
	}
	best, most := General, 0
	for i, t := range tasks {
		if n[i] > most {
			best, most = t.name, n[i]
		}
	}
	return best
}

// lower changes ASCII letters only, so that places stay what they are.
func lower(text string) string {
	b := []byte(text)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func wordByte(b byte) bool {
	return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b == '_'
}

// The types of a step.
const (
	Pattern = "pattern" // shows how, with a block of code
	Rule    = "rule"    // says what must or must not be
	Context = "context" // tells
)

var (
	patternWords = []string{"pattern", "patterns"}
	ruleWords    = []string{"must", "never", "always", "shall", "required", "forbidden", "rule", "rules", "do not", "don't"}
)

// Type is what the text is: a Pattern, a Rule or Context.
func Type(text string) string {
	text = lower(head(text))
	switch {
	case fenced(text) || hasWord(text, patternWords):
		return Pattern
	case hasWord(text, ruleWords):
		return Rule
	}
	return Context
}

// fenced reports whether a line begins with a fence of code.
func fenced(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimLeft(line, " \t\r\f\v"); strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			return true
		}
	}
	return false
}

// hasWord reports whether one of the words is in the text as a whole.
func hasWord(text string, words []string) bool {
	for _, w := range words {
		for from := 0; ; {
			i := strings.Index(text[from:], w)
			if i < 0 {
				break
			}
			begin, end := from+i, from+i+len(w)
			if (begin == 0 || !wordByte(text[begin-1])) && (end == len(text) || !wordByte(text[end])) {
				return true
			}
			from = end
		}
	}
	return false
}
