package mcpclient

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

// serversKey is the only key of a file.
const serversKey = "mcpServers"

// ErrForeign is about a file that has nothing of ours in it.
var ErrForeign = errors.New(`there is no "` + serversKey + `" in it, so it is probably the file of another program`)

// Fix is what to do about a file that Parse refuses.
func Fix(err error) string {
	if errors.Is(err, ErrForeign) {
		return "set KAIROS_TOOLS to a file of its own, such as kairos-tools.json"
	}
	return "`kairos tools` writes this file: correct it by hand, or move it away and add the servers again"
}

// checkKeys refuses keys that nobody reads, with the ones that were probably meant.
func checkKeys(one json.RawMessage) error {
	file, servers := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := json.Unmarshal(one, &file); err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, fields.Plain(err))
	}
	for _, key := range slices.Sorted(maps.Keys(file)) {
		closest := fields.Suggestion(key, []string{serversKey})
		switch {
		case key == serversKey:
		case closest == "" && file[serversKey] == nil && key != "servers":
			return ErrForeign
		default:
			return fmt.Errorf("unknown key %q%s", key, cmp.Or(closest, fmt.Sprintf("; the servers are below %q", serversKey)))
		}
	}
	_ = json.Unmarshal(file[serversKey], &servers) // Parse says what it must be
	known := keysOf(reflect.TypeFor[Server]())
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		server := map[string]json.RawMessage{}
		_ = json.Unmarshal(servers[name], &server) // likewise
		for _, key := range slices.Sorted(maps.Keys(server)) {
			if !slices.Contains(known, key) {
				errs = append(errs, fmt.Errorf("%s.%s: unknown key %q%s", serversKey, name, key, fields.Suggestion(key, known)))
			}
		}
	}
	return errors.Join(errs...)
}

// keysOf are the keys in JSON of a struct.
func keysOf(t reflect.Type) (keys []string) {
	for f := range t.Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, key)
	}
	return keys
}

// Names are the names of the servers in order.
func (f File) Names() []string { return slices.Sorted(maps.Keys(f.Servers)) }

// EnvNames are the variables of KAIROS's environment that the servers are given.
func (f File) EnvNames() []string {
	var names []string
	for _, s := range f.Servers {
		names = append(names, slices.Collect(maps.Values(s.EnvFrom))...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
