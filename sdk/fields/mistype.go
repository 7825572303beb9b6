package fields

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// TypeError is a JSON value of the wrong type, in words that name no Go type.
type TypeError struct {
	// Pointer of the value (RFC 6901), "" for the whole document.
	Pointer string
	// Message names the field, what it must be and what it is.
	Message string
}

func (e *TypeError) Error() string { return e.Message }

// Plain returns what encoding/json reports about a value of the wrong type as a
// *TypeError. Any other error is returned as it is.
func Plain(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	is := wrong.Value
	if kind, value, _ := strings.Cut(is, " "); value != "" { // "number 1.5"
		is = value
	} else if kind == "array" || kind == "object" {
		is = "an " + kind
	} else {
		is = "a " + kind
	}
	name := wrong.Field
	if name == "" {
		return &TypeError{Message: fmt.Sprintf("it must be %s, not %s", inJSON(wrong.Type), is)}
	}
	return &TypeError{
		Pointer: Pointer(strings.Split(name, ".")...),
		Message: fmt.Sprintf("%s must be %s, not %s", name, inJSON(wrong.Type), is),
	}
}

// inJSON is what a value of the type is in JSON.
func inJSON(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Pointer:
		return inJSON(t.Elem())
	}
	return "a string"
}
