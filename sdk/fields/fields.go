// Package fields reads JSON that strangers wrote: exactly one value without
// surprises, and the members of an object typed, by their exact names, with one
// diagnostic and JSON pointer for each thing that is wrong. A member that is
// null counts as not there. Validation by a JSON Schema is in package schema.
package fields

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Object is a JSON object being read. Not for concurrent use.
type Object struct {
	pointer  string
	members  map[string]json.RawMessage
	known    map[string]bool
	findings *[]driver.Diagnostic // shared by an object and those inside it
}

// Open reads raw as a JSON object; pointers of diagnostics begin with pointer.
// If raw is not one JSON object, the diagnostics say so and it reads as empty.
func Open(raw json.RawMessage, pointer string) *Object {
	o := &Object{pointer: pointer, known: map[string]bool{}, findings: new([]driver.Diagnostic)}
	one, err := DecodeOne(raw)
	if err != nil {
		o.add(driver.Problem(pointer, err.Error()))
		return o
	}
	o.read(one)
	return o
}

func (o *Object) read(one json.RawMessage) {
	if one[0] != '{' {
		o.add(driver.Problem(o.pointer, "must be an object, not "+TypeOf(one)))
		return
	}
	// DecodeOne has refused everything that could fail here.
	_ = json.Unmarshal(one, &o.members)
}

func (o *Object) add(d driver.Diagnostic) { *o.findings = append(*o.findings, d) }

func (o *Object) at(key string) string { return o.pointer + Pointer(key) }

// Has reports whether the member is there and not null.
func (o *Object) Has(key string) bool {
	_, found := o.member(key)
	return found
}

func (o *Object) member(key string) (json.RawMessage, bool) {
	o.known[key] = true
	raw, found := o.members[key]
	return raw, found && string(raw) != "null"
}

// Raw returns a member as it stands, nil if it is not there. A null that is
// there is returned as null.
func (o *Object) Raw(key string) json.RawMessage {
	o.known[key] = true
	return o.members[key]
}

// Object returns the object in a member, an empty one if it is not there.
func (o *Object) Object(key string) *Object {
	inner := &Object{pointer: o.at(key), known: map[string]bool{}, findings: o.findings}
	if raw, found := o.member(key); found {
		inner.read(raw)
	}
	return inner
}

// String returns the string in a member and whether there is one.
func (o *Object) String(key string) (string, bool) {
	var s string
	return s, o.typed(key, &s, "a string")
}

// Bool returns the boolean in a member and whether there is one.
func (o *Object) Bool(key string) (value, found bool) {
	found = o.typed(key, &value, "true or false")
	return value, found
}

// Number returns the number in a member and whether there is one.
func (o *Object) Number(key string) (float64, bool) {
	var n json.Number
	raw, found := o.member(key)
	if found && raw[0] == '"' { // json.Number would take it
		o.Wrong(key, "must be a number, not a string")
		return 0, false
	}
	if !o.typed(key, &n, "a number") {
		return 0, false
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		o.Wrong(key, "is out of range")
		return 0, false
	}
	return f, true
}

func (o *Object) typed(key string, into any, want string) bool {
	raw, found := o.member(key)
	if !found {
		return false
	}
	if err := json.Unmarshal(raw, into); err != nil {
		o.Wrong(key, "must be "+want+", not "+TypeOf(raw))
		return false
	}
	return true
}

// Wrong records an error about a member.
func (o *Object) Wrong(key, message string) { o.add(driver.Problem(o.at(key), message)) }

// Doubt records a warning about a member.
func (o *Object) Doubt(key, message string) { o.add(driver.Warning(o.at(key), message)) }

// Unread records every member that was not asked for: an error if its name is a member
// that was asked for, misspelt, else a warning.
func (o *Object) Unread() {
	known := slices.Collect(maps.Keys(o.known))
	for _, key := range o.Unknown() {
		if meant := Misspelt(key, known); meant != "" {
			o.Wrong(key, fmt.Sprintf("unknown key %q; did you mean %q?", key, meant))
			continue
		}
		o.Doubt(key, fmt.Sprintf("unknown key %q%s", key, Suggestion(key, known)))
	}
}

// Unknown lists the members that were not asked for, sorted.
func (o *Object) Unknown() []string {
	unknown := slices.Sorted(maps.Keys(o.members))
	return slices.DeleteFunc(unknown, func(key string) bool { return o.known[key] })
}

// Diagnostics returns the findings so far, of objects inside too.
func (o *Object) Diagnostics() []driver.Diagnostic { return *o.findings }

// Problems returns the findings that are errors.
func (o *Object) Problems() []driver.Diagnostic {
	var problems []driver.Diagnostic
	for _, d := range *o.findings {
		if d.Severity == driver.SeverityError {
			problems = append(problems, d)
		}
	}
	return problems
}

// TypeOf says in words of what type a value is: "a string", "a list". The value is
// one that DecodeOne returned or a part of it.
func TypeOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}
