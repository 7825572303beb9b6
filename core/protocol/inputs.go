package protocol

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

const keyInputs = "inputs"

// inputs finds the declaration of the run's inputs in a description.
func (p *parse) inputs(about span) json.RawMessage {
	var declared json.RawMessage
	for _, f := range p.text.within(about) {
		if !f.holdsInputs() {
			p.nearInputs(f)
			continue
		}
		b, ok := p.read(f, "")
		if !ok {
			continue
		}
		schema, ok := b.top[keyInputs]
		switch {
		case !ok:
		case !isObject(schema.value):
			p.found.failAt(b.place(schema.start), "", `"inputs" must be a JSON Schema object`)
		case declared != nil:
			p.found.failAt(b.place(schema.key), "", "the inputs are declared twice")
		default:
			declared = schema.value
		}
	}
	return declared
}

// holdsInputs reports whether the block is to be read as a declaration of inputs.
func (f fence) holdsInputs() bool {
	if f.isYAML() {
		return slices.Contains(keysOfYAML(f.content[:min(len(f.content), maxLook)]).keys, keyInputs)
	}
	return f.isJSON() && f.objectWith(keyInputs)
}

// nearInputs reports a block of the description that is probably meant as something
// that it is not.
func (p *parse) nearInputs(f fence) {
	switch key := f.schemaKey(); {
	case key != "":
		p.found.add(tolerated(p.text.placeOf(f.start), "", fmt.Sprintf("the key %q must be written %q: so the protocol declares no inputs", cut(key), keyInputs)))
	case lookOf(f).meant():
		p.found.add(tolerated(p.text.placeOf(f.start), "", "a challenge belongs to the end of a step, below its H2; above the first H2 this block is text"))
	}
}

// schemaKey is the only key of a block with a schema, if it is "inputs" or nearly so.
func (f fence) schemaKey() string {
	if len(f.content) > maxLook {
		return ""
	}
	key, schema := "", false
	if f.isYAML() {
		if k := keysOfYAML(f.content); len(k.keys) == 1 {
			key, schema = k.keys[0], k.typed
		}
	} else if top, err := members([]byte(f.content)); err == nil && len(top) == 1 && f.isJSON() {
		for k, m := range top {
			below, err := members(m.value)
			key, schema = k, err == nil && (has(below, "type") || has(below, "properties"))
		}
	}
	if schema && (key == keyInputs || fields.Misspelt(key, []string{keyInputs}) != "") {
		return key
	}
	return ""
}
