package decision

import (
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/core/yamldoc"
)

// undefinedName finds the name in CEL's messages about unknown facts.
var undefinedName = regexp.MustCompile(`^(?:undefined field|undeclared reference to) '([^']+)'`)

// factNames are the names that a condition may have meant.
var factNames = sync.OnceValue(func() []string { return jsonNames(reflect.TypeFor[Facts]()) })

func jsonNames(t reflect.Type) []string {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range t.NumField() {
		names = append(names, jsonName(t.Field(i)))
		names = append(names, jsonNames(t.Field(i).Type)...)
	}
	return names
}

// jsonName returns the JSON name of a field, which is also its name in CEL.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func explainUndefined(message string) string {
	message = strings.TrimSuffix(message, " (in container '')")
	if strings.Contains(message, "did you mean") {
		return message
	}
	if m := undefinedName.FindStringSubmatch(message); m != nil {
		return message + yamldoc.Suggest(m[1], factNames())
	}
	return message
}
