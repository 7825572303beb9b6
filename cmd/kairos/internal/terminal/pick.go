package terminal

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// pick is one ${...} in the arguments of a script: a named group as text, a
// named group as JSON, or a value of an earlier result.
type pick struct {
	group  string
	asJSON bool
	result string
	path   []string
}

var pickPattern = regexp.MustCompile(`\$\$|\$\{[^}]*\}`)

func parsePick(ref string) pick {
	body := strings.TrimSuffix(strings.TrimPrefix(ref, "${"), "}")
	if rest, ok := strings.CutPrefix(body, "result."); ok {
		parts := strings.Split(rest, ".")
		return pick{result: parts[0], path: parts[1:]}
	}
	if rest, ok := strings.CutPrefix(body, "json:"); ok {
		return pick{group: rest, asJSON: true}
	}
	return pick{group: body}
}

// eachPick calls f for every pick in a tree of maps, lists and strings.
func eachPick(tree any, f func(pick)) {
	switch v := tree.(type) {
	case map[string]any:
		for _, child := range v {
			eachPick(child, f)
		}
	case []any:
		for _, child := range v {
			eachPick(child, f)
		}
	case string:
		for _, ref := range pickPattern.FindAllString(v, -1) {
			if ref != "$$" {
				f(parsePick(ref))
			}
		}
	}
}

// fill returns a copy of the tree with every pick replaced.
func fill(tree any, groups map[string]string, results map[string]json.RawMessage) (any, error) {
	switch v := tree.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, child := range v {
			filled, err := fill(child, groups, results)
			if err != nil {
				return nil, err
			}
			out[key] = filled
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			filled, err := fill(child, groups, results)
			if err != nil {
				return nil, err
			}
			out[i] = filled
		}
		return out, nil
	case string:
		return fillText(v, groups, results)
	}
	return tree, nil
}

func fillText(text string, groups map[string]string, results map[string]json.RawMessage) (any, error) {
	if ref := pickPattern.FindString(text); ref == text && ref != "$$" && ref != "" {
		return parsePick(ref).value(groups, results)
	}
	var failed error
	out := pickPattern.ReplaceAllStringFunc(text, func(ref string) string {
		if ref == "$$" {
			return "$"
		}
		value, err := parsePick(ref).value(groups, results)
		if err != nil {
			failed = err
			return ""
		}
		if s, ok := value.(string); ok {
			return s
		}
		raw, err := json.Marshal(value)
		if err != nil {
			failed = err
		}
		return string(raw)
	})
	return out, failed
}

func (p pick) value(groups map[string]string, results map[string]json.RawMessage) (any, error) {
	if p.result != "" {
		return p.fromResult(results)
	}
	text, ok := groups[p.group]
	if !ok {
		return nil, fmt.Errorf("no group %q", p.group)
	}
	if !p.asJSON {
		return text, nil
	}
	var value any
	if err := decode([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("group %q is not JSON: %q", p.group, text)
	}
	return value, nil
}

func (p pick) fromResult(results map[string]json.RawMessage) (any, error) {
	raw, ok := results[p.result]
	if !ok {
		return nil, fmt.Errorf("no result %q yet", p.result)
	}
	var value any
	if err := decode(raw, &value); err != nil {
		return nil, fmt.Errorf("result %q: %w", p.result, err)
	}
	for _, key := range p.path {
		var found bool
		switch v := value.(type) {
		case map[string]any:
			value, found = v[key]
		case []any:
			if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(v) {
				value, found = v[i], true
			}
		}
		if !found {
			return nil, fmt.Errorf("result %q has no %s", p.result, strings.Join(p.path, "."))
		}
	}
	return value, nil
}
