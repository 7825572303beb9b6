package terminal

import (
	"encoding/json"
	"errors"
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
	_, _ = fill(tree, func(p pick) (any, error) { f(p); return nil, nil })
}

// fill returns a copy of the tree with the value of every pick in its place.
func fill(tree any, value func(pick) (any, error)) (filled any, err error) {
	switch v := tree.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, child := range v {
			if out[key], err = fill(child, value); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			if out[i], err = fill(child, value); err != nil {
				return nil, err
			}
		}
		return out, nil
	case string:
		return fillText(v, value)
	}
	return tree, nil
}

func fillText(text string, value func(pick) (any, error)) (any, error) {
	if ref := pickPattern.FindString(text); ref == text && ref != "$$" && ref != "" {
		return value(parsePick(ref))
	}
	var failed error
	out := pickPattern.ReplaceAllStringFunc(text, func(ref string) string {
		if ref == "$$" {
			return "$"
		}
		v, err := value(parsePick(ref))
		raw, encodeErr := json.Marshal(v)
		if err = errors.Join(err, encodeErr); err != nil {
			failed = err
		}
		return plainText(raw)
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
