package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

var durations = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(durationPattern) })

// reader fills a struct from one document. The document has passed DecodeOne.
type reader struct {
	templates bool // no bounds for texts with a template
	lenient   bool // unknown keys are passed over, null counts as not there
	found     []driver.Diagnostic
}

func (r *reader) wrong(pointer, format string, args ...any) {
	r.found = append(r.found, driver.Problem(pointer, fmt.Sprintf(format, args...)))
}

// value reads raw into the place.
func (r *reader) value(n *node, raw json.RawMessage, into reflect.Value, pointer string) {
	switch n.form {
	case text, duration:
		r.text(n, raw, into, pointer)
	case boolean:
		if r.is(raw, pointer, "true or false") {
			into.SetBool(string(raw) == "true")
		}
	case whole, number:
		r.number(n, raw, into, pointer)
	case list:
		r.list(n, raw, into, pointer)
	case dictionary:
		r.dictionary(n, raw, into, pointer)
	case object:
		r.object(n, raw, into, pointer)
	case anything:
		into.SetBytes(bytes.Clone(raw))
	}
}

// is reports whether raw is of the type, and records it if not.
func (r *reader) is(raw json.RawMessage, pointer, want string) bool {
	got := fields.TypeOf(raw)
	if got != want {
		r.wrong(pointer, "must be %s, not %s", want, got)
	}
	return got == want
}

func (r *reader) text(n *node, raw json.RawMessage, into reflect.Value, pointer string) {
	if !r.is(raw, pointer, "a string") {
		return
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		r.wrong(pointer, "%v", err)
		return
	}
	if r.templates && templated(s) {
		if n.form == text {
			into.SetString(s)
		}
		return
	}
	if n.form == duration {
		r.duration(n, s, into, pointer)
		return
	}
	into.SetString(s)
	if n.enum != nil && !slices.Contains(n.enum, s) {
		r.wrong(pointer, "must be one of %s", strings.Join(n.enum, ", "))
	}
	r.count(n, utf8.RuneCountInString(s), "character", pointer)
}

func templated(s string) bool {
	_, rest, found := strings.Cut(s, "{{")
	return found && strings.Contains(rest, "}}")
}

func (r *reader) duration(n *node, s string, into reflect.Value, pointer string) {
	d, err := time.ParseDuration(s)
	if err != nil || !durations().MatchString(s) {
		r.wrong(pointer, `must be a duration such as "30s", "1m30s" or "500ms"`)
		return
	}
	into.SetInt(int64(d))
	r.within(n, big.NewRat(int64(d), int64(time.Second)), pointer)
}

func (r *reader) number(n *node, raw json.RawMessage, into reflect.Value, pointer string) {
	if !r.is(raw, pointer, "a number") {
		return
	}
	exact, ok := new(big.Rat).SetString(string(raw)) // DecodeOne has bounded the literal
	if !ok {
		r.wrong(pointer, "is out of range")
		return
	}
	if n.form == whole && !exact.IsInt() {
		r.wrong(pointer, "must be a whole number")
		return
	}
	if !r.within(n, exact, pointer) {
		return
	}
	if !setNumber(n, exact, string(raw), into) {
		r.wrong(pointer, "is out of range")
	}
}

func setNumber(n *node, exact *big.Rat, literal string, into reflect.Value) bool {
	switch {
	case n.form == number:
		f, err := strconv.ParseFloat(literal, n.typ.Bits())
		into.SetFloat(f)
		return err == nil
	case into.CanUint():
		into.SetUint(exact.Num().Uint64())
		return exact.Num().IsUint64()
	}
	into.SetInt(exact.Num().Int64())
	return exact.Num().IsInt64()
}

// within holds a number or a duration to its bounds.
func (r *reader) within(n *node, exact *big.Rat, pointer string) bool {
	switch {
	case n.min != nil && exact.Cmp(n.min.exact) < 0:
		r.wrong(pointer, "must be at least %s", n.min.literal)
		return false
	case n.max != nil && exact.Cmp(n.max.exact) > 0:
		r.wrong(pointer, "must be at most %s", n.max.literal)
		return false
	}
	return true
}

// count holds a length to its bounds.
func (r *reader) count(n *node, length int, of, pointer string) {
	exact := new(big.Rat).SetInt64(int64(length))
	switch {
	case n.min != nil && exact.Cmp(n.min.exact) < 0:
		r.wrong(pointer, "must have at least %s, not %d", several(n.min.literal, of), length)
	case n.max != nil && exact.Cmp(n.max.exact) > 0:
		r.wrong(pointer, "must have at most %s, not %d", several(n.max.literal, of), length)
	}
}

func several(n, of string) string {
	switch {
	case n == "1":
		return n + " " + of
	case of == "entry":
		return n + " entries"
	}
	return n + " " + of + "s"
}

func (r *reader) list(n *node, raw json.RawMessage, into reflect.Value, pointer string) {
	if !r.is(raw, pointer, "a list") {
		return
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		r.wrong(pointer, "%v", err)
		return
	}
	into.Set(reflect.MakeSlice(n.typ, len(entries), len(entries)))
	for i, entry := range entries {
		r.value(n.elem, entry, into.Index(i), pointer+"/"+strconv.Itoa(i))
	}
	r.count(n, len(entries), "entry", pointer)
}

func (r *reader) dictionary(n *node, raw json.RawMessage, into reflect.Value, pointer string) {
	entries, ok := r.open(raw, pointer)
	if !ok {
		return
	}
	into.Set(reflect.MakeMapWithSize(n.typ, len(entries)))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		place := reflect.New(n.typ.Elem()).Elem()
		r.value(n.elem, entries[key], place, pointer+fields.Pointer(key))
		into.SetMapIndex(reflect.ValueOf(key).Convert(n.typ.Key()), place)
	}
	r.count(n, len(entries), "entry", pointer)
}

func (r *reader) open(raw json.RawMessage, pointer string) (map[string]json.RawMessage, bool) {
	if !r.is(raw, pointer, "an object") {
		return nil, false
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		r.wrong(pointer, "%v", err)
		return nil, false
	}
	return entries, true
}

func (r *reader) object(n *node, raw json.RawMessage, into reflect.Value, pointer string) {
	entries, ok := r.open(raw, pointer)
	if !ok {
		return
	}
	for _, f := range n.members {
		at := pointer + fields.Pointer(f.name)
		entry, there := entries[f.name]
		there = there && (!r.lenient || string(entry) != "null")
		delete(entries, f.name)
		switch {
		case there:
			r.value(f.node, entry, f.place(into), at)
		case f.required:
			r.wrong(at, "is missing")
		default:
			r.found = append(r.found, f.fillDefault(into, at)...)
		}
	}
	if r.lenient {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		r.wrong(pointer+fields.Pointer(key), "unknown key %q%s", key, n.instead(key))
	}
}

// instead names the key that was probably meant, or all keys there are.
func (n *node) instead(unknown string) string {
	if len(n.members) == 0 {
		return ""
	}
	names := make([]string, len(n.members))
	for i, f := range n.members {
		names[i] = f.name
	}
	if meant := fields.Suggestion(unknown, names); meant != "" {
		return meant
	}
	return "; known: " + strings.Join(names, ", ")
}

// place is where the value of the field goes.
func (f field) place(in reflect.Value) reflect.Value {
	v := in.Field(f.index)
	if !f.optional {
		return v
	}
	v.Set(reflect.New(f.node.typ))
	return v.Elem()
}

// fillDefault puts in what the field is when nothing is said of it.
func (f field) fillDefault(in reflect.Value, pointer string) []driver.Diagnostic {
	switch {
	case f.fallback != nil:
		var r reader
		r.value(f.node, f.fallback, f.place(in), pointer)
		return r.found
	case f.node.form == object && !f.optional:
		return f.node.fillDefaults(in.Field(f.index), pointer)
	}
	return nil
}

func (n *node) fillDefaults(into reflect.Value, pointer string) []driver.Diagnostic {
	var found []driver.Diagnostic
	for _, f := range n.members {
		found = append(found, f.fillDefault(into, pointer+fields.Pointer(f.name))...)
	}
	return found
}
