package protocol

import (
	"slices"
	"strings"
)

const belowChallenge = "put it below challenge:, indented"

// lookOfYAML is the look of a block of YAML.
func lookOfYAML(content string) look {
	if isObject([]byte(content)) { // JSON is YAML
		first := firstWord.FindStringSubmatch(content)
		switch {
		case first == nil:
			return look{}
		case first[1] == keyChallenge || first[1] == keyContract:
			return look{challenge: true}
		}
		return lookOfKeys(first[1:], nil)
	}
	content = content[:min(len(content), maxLook)]
	k := keysOfYAML(content)
	switch {
	case len(k.keys) == 0:
		return look{}
	case k.list && (slices.Contains(k.keys, keyChallenge) || isNear(k.keys[0])):
		return look{near: "a challenge is an object, not a list: challenge: {...}"}
	case k.list:
		return look{}
	case slices.Contains(k.keys, keyChallenge), slices.Contains(k.keys, keyContract) && k.typed:
		return look{challenge: true}
	case k.kind != "" && slices.Contains(k.keys, k.kind):
		return look{near: belowChallenge}
	case k.kind != "":
		return look{kind: k.kind, advice: belowChallenge}
	}
	if l := lookOfKeys(k.keys, func(key string) bool { return k.typed && key == k.keys[0] }); l != (look{}) || len(k.keys) != 1 {
		return l
	}
	if k.typed {
		return look{near: "write challenge in place of " + cut(k.keys[0])}
	}
	return look{kind: k.keys[0], advice: belowChallenge}
}

// beginsLikeYAML reports whether the first line of a text is the key of a challenge.
func beginsLikeYAML(content string) bool {
	for line := range strings.Lines(content[:min(len(content), maxLook)]) {
		if line = strings.TrimSpace(line); line != "" && line != "---" && line[0] != '#' {
			key, rest, ok := strings.Cut(line, ":")
			return ok && (key == keyChallenge || isNear(key)) && (rest == "" || strings.HasPrefix(strings.TrimSpace(rest), "{"))
		}
	}
	return false
}

// yamlKeys are the keys of the outermost mapping of a YAML text, as far as its lines
// show them.
type yamlKeys struct {
	keys  []string
	kind  string // the value of type
	typed bool   // a line below has type
	list  bool   // the mapping is an element of a list
}

func keysOfYAML(content string) (k yamlKeys) {
	for line := range strings.Lines(content) {
		line = strings.TrimRight(line, " \t\r\n")
		if strings.HasPrefix(line, "- ") {
			k.list, line = true, strings.TrimLeft(line[2:], " ")
		}
		if line == "" || line[0] == '#' || line == "---" {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		switch name := strings.Trim(strings.TrimSpace(key), `"'`); {
		case line[0] == ' ' || line[0] == '\t':
			k.typed = k.typed || name == "type"
		case !slices.Contains(k.keys, name) && len(k.keys) < 20:
			k.keys = append(k.keys, name)
			if name == "type" {
				k.kind, _, _ = strings.Cut(strings.Trim(value, " \t\"'"), " ")
			}
		}
	}
	return k
}
