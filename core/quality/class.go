package quality

import (
	"regexp"
	"strings"
)

// tasks are the kinds of work a step may be about, the narrower first, with
// the beginnings of the words that tell.
var tasks = []struct {
	name  string
	words *regexp.Regexp
}{
	{"networking", stems("network", "dns", "firewall", "proxy", "router", "subnet", "tls handshake", "load balanc")},
	{"security", stems("secur", "credential", "password", "secret", "encrypt", "certificat", "vulnerab", "permission", "authenti", "authori")},
	{"optimization", stems("optimi", "performance", "benchmark", "profil", "latency", "throughput", "cache", "caching")},
	{"troubleshooting", stems("troubleshoot", "debug", "diagnos", "investigat", "root cause", "incident")},
	{"error-handling", stems("error", "exception", "retry", "retries", "fallback", "panic")},
	{"installation", stems("install", "upgrade", "download", "set up", "setup")},
	{"configuration", stems("config", "setting", "environment variable", "parameter")},
	{"testing", stems("test", "assert", "coverage", "verify", "verification")},
	{"deployment", stems("deploy", "release", "rollout", "roll out", "publish", "ship", "kubernetes", "docker")},
	{"database", stems("database", "sql", "migration", "schema", "query", "backup", "restore")},
}

// General is the task of a step that is about none of the known ones.
const General = "general"

func stems(words ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(words, "|") + `)`)
}

// Task is what kind of work the text is about: the kind with the most words in
// the text, the heading counting three times, else General.
func Task(text string) string {
	text = head(text)
	heading, _, _ := strings.Cut(text, "\n")
	best, most := General, 0
	for _, t := range tasks {
		n := len(t.words.FindAllStringIndex(text, -1)) + 2*len(t.words.FindAllStringIndex(heading, -1))
		if n > most {
			best, most = t.name, n
		}
	}
	return best
}

// The types of a step.
const (
	Pattern = "pattern" // shows how, with a block of code
	Rule    = "rule"    // says what must or must not be
	Context = "context" // tells
)

var (
	patternSign = regexp.MustCompile("(?im)^\\s*(?:```|~~~)|\\bpatterns?\\b")
	ruleSign    = regexp.MustCompile(`(?i)\b(?:must|never|always|shall|required|forbidden|rules?|do not|don't)\b`)
)

// Type is what the text is: a Pattern, a Rule or Context.
func Type(text string) string {
	text = head(text)
	switch {
	case patternSign.MatchString(text):
		return Pattern
	case ruleSign.MatchString(text):
		return Rule
	}
	return Context
}
