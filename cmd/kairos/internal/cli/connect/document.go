package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	goyaml "github.com/goccy/go-yaml"
	gotoml "github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"
)

// format of a configuration file.
type format struct {
	name string
	// decode reads a document into a generic value.
	decode func([]byte) (map[string]any, error)
	// encode writes a document with one table of servers that has one entry.
	encode func(servers string, e entry) ([]byte, error)
	// insert puts the entry into a document and keeps everything else as it is,
	// comments and layout included. put checks the result.
	insert func(document []byte, servers string, e entry) ([]byte, error)
}

var jsonc = format{
	name: "JSON",
	decode: func(document []byte) (map[string]any, error) {
		standard, err := hujson.Standardize(bytes.Clone(document))
		if err != nil {
			return nil, err
		}
		var v map[string]any
		return v, json.Unmarshal(standard, &v)
	},
	encode: func(servers string, e entry) ([]byte, error) {
		b, err := json.MarshalIndent(map[string]any{servers: map[string]any{serverName: e}}, "", "  ")
		return append(b, '\n'), err
	},
	insert: insertJSON,
}

var toml = format{
	name: "TOML",
	decode: func(document []byte) (v map[string]any, err error) {
		return v, gotoml.Unmarshal(document, &v)
	},
	encode: encodeTOML,
	insert: insertTOML,
}

var yaml = format{
	name: "YAML",
	decode: func(document []byte) (v map[string]any, err error) {
		return v, goyaml.Unmarshal(document, &v)
	},
	encode: encodeYAML,
	insert: insertYAML,
}

func encodeTOML(servers string, e entry) ([]byte, error) {
	b, err := gotoml.Marshal(e)
	return append([]byte("["+servers+"."+serverName+"]\n"), b...), err
}

func encodeYAML(servers string, e entry) ([]byte, error) {
	return goyaml.MarshalWithOptions(map[string]any{servers: map[string]any{serverName: e}}, goyaml.IndentSequence(true))
}

// errUnsafe: the document cannot be changed without changing something else.
var errUnsafe = errors.New("the file is written in a way that cannot be changed safely")

// put returns the document with the entry. It fails rather than change anything
// else: the result is decoded and compared with the document before.
func (f format) put(document []byte, servers string, e entry) ([]byte, error) {
	if len(bytes.TrimSpace(document)) == 0 {
		return f.encode(servers, e)
	}
	before, err := f.decode(document)
	if err != nil {
		return nil, fmt.Errorf("the file is not valid %s: %w", f.name, err)
	}
	wanted, err := f.with(before, servers, e)
	if err != nil {
		return nil, err
	}
	if reflect.DeepEqual(before, wanted) {
		return document, nil
	}
	changed, err := f.insert(document, servers, e)
	if err != nil {
		return nil, err
	}
	if after, err := f.decode(changed); err != nil || !reflect.DeepEqual(after, wanted) {
		return nil, errUnsafe
	}
	return changed, nil
}

// with is the decoded document with the entry.
func (f format) with(document map[string]any, servers string, e entry) (map[string]any, error) {
	fresh, err := f.encode(servers, e)
	if err != nil {
		return nil, err
	}
	added, err := f.decode(fresh)
	if err != nil {
		return nil, err
	}
	table := map[string]any{}
	switch present := document[servers].(type) {
	case nil:
	case map[string]any:
		table = maps.Clone(present)
	default:
		return nil, fmt.Errorf("%q in the file is not a table of servers: %w", servers, errUnsafe)
	}
	table[serverName] = added[servers].(map[string]any)[serverName]
	wanted := maps.Clone(document)
	if wanted == nil {
		wanted = map[string]any{}
	}
	wanted[servers] = table
	return wanted, nil
}

// configured returns the entry of this server in the document, if it has one.
func (f format) configured(document []byte, servers string) (e entry, ok bool, err error) {
	if len(bytes.TrimSpace(document)) == 0 {
		return entry{}, false, nil
	}
	v, err := f.decode(document)
	if err != nil {
		return entry{}, false, fmt.Errorf("the file is not valid %s: %w", f.name, err)
	}
	table, _ := v[servers].(map[string]any)
	present, ok := table[serverName]
	if !ok {
		return entry{}, false, nil
	}
	// The keys of an entry are the same in every format.
	b, err := json.Marshal(present)
	if err != nil {
		return entry{}, false, err
	}
	return e, true, json.Unmarshal(b, &e)
}
