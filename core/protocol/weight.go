package protocol

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/pattern"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// The limits of what the challenges and inputs of one document hold together.
const (
	maxChallenge = 1 << 20 // bytes of one of them
	maxBytes     = 4 << 20 // of all of them
	maxValues    = 200_000 // JSON values
	maxTemplates = 10_000
	maxPatterns  = 250_000 // steps of the programs of all patterns; see pattern.MaxSteps
	maxSchemas   = 100_000 // see schemaWeight
	maxYAML      = 1 << 20 // bytes of all of them that are YAML
	maxPointer   = 1_024   // bytes of the keys that lead to one value
)

// weight is what the blocks of a document hold so far. It is counted before a block
// is read, so that a document beyond a limit costs nothing else.
type weight struct {
	bytes, values, templates, patterns, schemas, yamls int

	excess string // the limit that is exceeded; empty: none
}

// block adds the JSON of a block; false: the document exceeds a limit. Invalid JSON
// is left to its reader.
func (w *weight) block(content []byte) bool {
	if len(content) > maxChallenge {
		w.excess = fmt.Sprintf("the block has %d bytes; a challenge or inputs may have at most %d", len(content), maxChallenge)
		return false
	}
	w.bytes += len(content)
	if w.limit(w.bytes, maxBytes, "bytes"); w.excess != "" {
		return false
	}
	_ = walkJSON(content, jsonWalker{
		onValue: func(string, int) bool {
			w.values++
			w.limit(w.values, maxValues, "JSON values")
			return w.excess == ""
		},
		onString: func(pointer string, _, _ int, value string) {
			left := maxTemplates - w.templates
			w.templates += len(templatesIn(value, left+1))
			w.limit(w.templates, maxTemplates, "templates")
			if key := pointer[strings.LastIndexByte(pointer, '/')+1:]; key == "pattern" || key == "regex" || key == "matches" {
				w.pattern(value)
			}
		},
		onMember: func(pointer string, _, start, end int) {
			above, key := splitPointer(pointer)
			if _, above = splitPointer(above); above == "patternProperties" {
				w.pattern(key)
			}
			if isSchema(pointer) {
				w.schema(content[start:end])
			}
		},
	})
	return w.excess == ""
}

// yaml adds a block of YAML; false: the document exceeds a limit.
func (w *weight) yaml(content string) bool {
	if len(content) > maxFrontMatter {
		w.excess = fmt.Sprintf("the block has %d bytes of YAML; at most %d are allowed, in JSON %d", len(content), maxFrontMatter, maxChallenge)
		return false
	}
	w.yamls += len(content)
	w.limit(w.yamls, maxYAML, "bytes of YAML; write the largest in JSON")
	return w.excess == ""
}

// text checks the size of a text; false: it has more than anybody could read. After
// the first text that is too large the others are not looked at.
func (w *weight) text(what string, size int) bool {
	if size <= maxText || w.excess != "" {
		return true
	}
	w.excess = fmt.Sprintf("%s has %d bytes; at most %d are allowed: link to what is longer", what, size, maxText)
	return false
}

func splitPointer(pointer string) (above, key string) {
	i := strings.LastIndexByte(pointer, '/')
	return pointer[:max(i, 0)], pointer[i+1:]
}

// isSchema reports whether the core compiles the value at the pointer as a schema.
func isSchema(pointer string) bool {
	return pointer == "/inputs" || pointer == "/challenge/output_schema" ||
		strings.HasPrefix(pointer, "/challenge/files/") && strings.HasSuffix(pointer, "/json_schema") && strings.Count(pointer, "/") == 4
}

func (w *weight) limit(n, most int, of string) {
	if n > most && w.excess == "" {
		w.excess = fmt.Sprintf("the challenges and inputs of the document have more than %d %s", most, of)
	}
}

// pattern adds an expression. One that is refused takes time to read, too, and is
// reported by its place.
func (w *weight) pattern(text string) {
	steps, _ := pattern.Steps(text)
	w.patterns += steps
	w.limit(w.patterns, maxPatterns, "steps of patterns; write smaller or fewer repetitions")
}

// schema adds a schema by the time that compiling takes, which grows faster than
// the schema.
func (w *weight) schema(raw json.RawMessage) {
	const fast = 300 // parts
	weight, err := schema.Weigh(raw)
	if err != nil {
		return // it is refused by its place, and never compiled
	}
	w.schemas += weight.Parts + weight.Parts*weight.Parts/fast
	w.limit(w.schemas, maxSchemas, "parts of schemas, counting large schemas more; write smaller ones")
}
