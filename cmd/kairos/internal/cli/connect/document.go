package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"time"

	goyaml "github.com/goccy/go-yaml"
	gotoml "github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
)

// format of a configuration file.
type format struct {
	name string
	// decode reads a document into a generic value.
	decode func([]byte) (map[string]any, error)
	// encode writes a document with one table of servers that has one entry.
	encode func(servers string, e entry) ([]byte, error)
	// insert makes the change in a document and keeps everything else as it is,
	// comments and layout included. put checks the result.
	insert func(document []byte, servers string, c change) ([]byte, error)
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
	out := []byte("[" + servers + "." + serverName + "]\n")
	for _, s := range e {
		b, err := gotoml.Marshal(struct { // tables of variables stay in one line
			V any `toml:"v,inline"`
		}{s.value})
		if err != nil {
			return nil, err
		}
		out = append(append(out, s.key...), bytes.TrimPrefix(b, []byte("v"))...)
	}
	return out, nil
}

func encodeYAML(servers string, e entry) ([]byte, error) {
	var ordered goyaml.MapSlice
	for _, s := range e {
		value := s.value
		switch v := value.(type) {
		case variables:
			value = map[string]any(v)
		case headers:
			value = map[string]any(v)
		}
		ordered = append(ordered, goyaml.MapItem{Key: s.key, Value: value})
	}
	return goyaml.MarshalWithOptions(map[string]any{servers: map[string]any{serverName: ordered}}, goyaml.IndentSequence(true))
}

// errUnsafe: the document cannot be changed without changing something else.
var errUnsafe = errors.New("the file is written in a way that cannot be changed safely")

// put returns the document with the change. It fails rather than change anything
// else: the result is decoded and compared with the document before.
func (f format) put(document []byte, servers string, c change) ([]byte, error) {
	if len(bytes.TrimSpace(document)) == 0 {
		return f.encode(servers, c.entry)
	}
	before, err := f.decode(document)
	if err != nil {
		return nil, fmt.Errorf("the file is not valid %s: %w", f.name, err)
	}
	wanted, err := f.with(before, servers, c)
	if err != nil {
		return nil, err
	}
	if reflect.DeepEqual(before, wanted) {
		return document, nil
	}
	changed, err := f.insert(document, servers, c)
	if err != nil {
		return nil, err
	}
	after, err := f.decode(changed)
	if err != nil || !reflect.DeepEqual(after, wanted) || json.Valid(document) && !json.Valid(changed) {
		return nil, errUnsafe
	}
	return changed, nil
}

// with is the decoded document with the change.
func (f format) with(document map[string]any, servers string, c change) (map[string]any, error) {
	table := map[string]any{}
	switch present := document[servers].(type) {
	case nil:
	case map[string]any:
		table = maps.Clone(present)
	default:
		return nil, fmt.Errorf("%q in the file is not a table of servers: %w", servers, errUnsafe)
	}
	fresh, err := f.encode(servers, c.entry)
	if err != nil {
		return nil, err
	}
	added, err := f.decode(fresh) // numbers as this format reads them
	if err != nil {
		return nil, err
	}
	table[serverName] = c.on(tableOf(table[serverName]), tableOf(tableOf(added[servers])[serverName]))
	wanted := maps.Clone(document)
	if wanted == nil {
		wanted = map[string]any{}
	}
	wanted[servers] = table
	return wanted, nil
}

// configured returns the entry of this server in the document, if it has one.
func (f format) configured(document []byte, servers string) (present map[string]any, ok bool, err error) {
	if len(bytes.TrimSpace(document)) == 0 {
		return nil, false, nil
	}
	v, err := f.decode(document)
	if err != nil {
		return nil, false, fmt.Errorf("the file is not valid %s: %w", f.name, err)
	}
	present, ok = tableOf(v[servers])[serverName].(map[string]any)
	return present, ok, nil
}

// maxDocument bounds the configuration of a client, in bytes.
const maxDocument = 4 << 20

// readDocument reads a client's file; a file that does not exist is empty.
func readDocument(path string) ([]byte, error) {
	b, err := files.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration of the client: %w", err)
	}
	if len(b) > maxDocument {
		return nil, fmt.Errorf("%s has %d bytes, more than a configuration file has", path, len(b))
	}
	return b, nil
}

// writeDocument replaces a client's file at once and keeps the one before
// beside it. It returns the path of that copy, or "" if there was no file.
func writeDocument(path string, before, after []byte, now time.Time) (backup string, err error) {
	// Behind a link, which people use to keep such files elsewhere, the link stays.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	mode := fs.FileMode(0o600) // tokens of other servers may be in it
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
		if backup, err = keep(path, before, mode, now); err != nil {
			return "", fmt.Errorf("keep a copy of %s: %w", path, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a folder of the person's own
		return "", fmt.Errorf("make the folder of the configuration: %w", err)
	}
	if err := files.Replace(path, after, mode); err != nil {
		return "", fmt.Errorf("write the configuration of the client, %s: %w", path, err)
	}
	return backup, nil
}

// keep writes a copy beside the file. It replaces nothing: an earlier copy of the
// same second stays, and a link in its place is not followed.
func keep(path string, content []byte, mode fs.FileMode, now time.Time) (backup string, err error) {
	first := path + ".before-kairos-" + now.Format("20060102-150405")
	backup = first
	f, err := os.OpenFile(backup, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	for i := 2; errors.Is(err, fs.ErrExist) && i < 100; i++ {
		backup = fmt.Sprintf("%s-%d", first, i)
		f, err = os.OpenFile(backup, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	return backup, errors.Join(err, f.Chmod(mode), f.Close())
}
