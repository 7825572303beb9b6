package config

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/statement"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// Source says where a configuration comes from.
type Source struct {
	File, Database string
	// OverHTTP puts flags over the http section; nil without flags.
	OverHTTP func(*Config)
	// LogLevel is the level where none is configured. The default is info.
	LogLevel string
}

// Load reads the file, then the environment, then the flags. Its error lists
// every problem.
func (s Source) Load() (Config, error) {
	c, err := s.assemble()
	if err != nil || c == nil {
		return Config{}, err
	}
	return *c, nil
}

// assemble is load that returns what it could read although there are problems;
// nil if there is nothing to go by.
func (s Source) assemble() (*Config, error) { return s.assembleIn(func(string, Config) {}) }

// assembleIn is assemble that tells what the configuration is after each source.
func (s Source) assembleIn(tell func(from string, c Config)) (*Config, error) {
	var c Config
	problems, readable := s.read(&c)
	if !readable {
		return nil, errors.Join(problems...)
	}
	tell(FromFile, c)
	problems = append(problems, c.overlay(os.LookupEnv))
	tell(FromEnvironment, c)
	if s.Database != "" {
		c.Database = Database(s.Database)
	}
	if s.OverHTTP != nil {
		s.OverHTTP(&c)
	}
	tell(FromFlag, c)
	if c.Log.Level == "" {
		c.Log.Level = s.LogLevel
	}
	if err := c.defaults(); err != nil {
		return nil, errors.Join(append(problems, err)...)
	}
	tell(FromDefault, c)
	return &c, errors.Join(append(problems, c.validate())...)
}

// read reads the file into c. With readable false, c is unchanged.
func (s Source) read(c *Config) (problems []error, readable bool) {
	if s.File == "" {
		return nil, true
	}
	b, err := files.Read(s.File)
	if err != nil {
		return []error{fmt.Errorf("read the configuration: %w", err)}, false
	}
	problems, readable = c.decode(s.File, b)
	c.relativeTo(filepath.Dir(s.File))
	return problems, readable
}

// CheckFiles returns every problem of the configuration and of what it names:
// the decision tree and the settings of drivers. It opens no database, because
// with a wrong file it would be the wrong one.
func (s Source) CheckFiles() error {
	c, err := s.assemble()
	if c == nil {
		return err
	}
	problems := []error{err}
	lock, err := c.ReadLock()
	if err != nil {
		return errors.Join(append(problems, err)...)
	}
	src, err := c.TreeSource()
	if err == nil {
		_, err = decision.Compile(src, lock.Descriptors())
	}
	wrong, unused := c.Drivers.SettingProblems(lock.Descriptors(), s.File)
	return errors.Join(append(problems, slices.Concat([]error{err}, wrong, unused)...)...)
}

// Salvage is as much of a configuration that is wrong as finds servers.
func (s Source) Salvage() Config {
	var part struct {
		Drivers struct {
			Dir string `yaml:"dir"`
		} `yaml:"drivers"`
		Admin struct {
			Socket string `yaml:"socket"`
		} `yaml:"admin"`
	}
	var c Config
	if b, err := files.Read(s.File); err == nil && yaml.Unmarshal(b, &part) == nil {
		c.Drivers.Dir, c.Admin.Socket = part.Drivers.Dir, part.Admin.Socket
	}
	c.relativeTo(filepath.Dir(s.File))
	_ = c.overlay(os.LookupEnv) // what is wrong is said already
	_ = c.defaults()
	return c
}

// TreeSource reads the decision tree.
func (c Config) TreeSource() (decision.Source, error) {
	if c.Tree == "" {
		return decision.Default(), nil
	}
	b, err := files.Read(c.Tree)
	if err != nil {
		return decision.Source{}, fmt.Errorf("read the decision tree: %w", err)
	}
	return decision.Source{Name: c.Tree, YAML: b}, nil
}

// CompileTree reads and compiles the decision tree against the locked drivers.
func (c Config) CompileTree() (*decision.Tree, error) {
	lock, err := c.ReadLock()
	if err != nil {
		return nil, err
	}
	src, err := c.TreeSource()
	if err != nil {
		return nil, err
	}
	return decision.Compile(src, lock.Descriptors())
}

// Facts are what conditions of the tree see as `config`.
func (c Config) Facts() decision.ConfigFacts {
	return decision.ConfigFacts{
		UserInput: decision.UserInputFacts{Enabled: c.UserInput.ServerDriver, Driver: c.UserInput.Driver},
		Approval:  decision.ApprovalFacts{DelegateToClient: *c.Approval.DelegateToClient, TrustAgent: c.Approval.TrustAgent, Typed: c.Approval.Typed},
	}
}

// keyFile is a file with a key, which is made where there is none, unless replicas share it.
type keyFile struct {
	path    string
	what    string // the key
	command string // that makes one for all replicas
	read    func(path string) ([]byte, error)
	fresh   func() []byte
}

func (c Config) key(f keyFile) ([]byte, error) {
	text, err := f.read(f.path)
	if errors.Is(err, fs.ErrNotExist) && c.Replica.Address == "" {
		if err := files.MakeKey(f.path, f.fresh()); err != nil {
			return nil, err
		}
		text, err = f.read(f.path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("key file %s does not exist; replicas share one: make it once with `%s` and copy it to each of them", f.path, f.command)
	case err != nil:
		return nil, fmt.Errorf("read the key that %s: %w", f.what, err)
	}
	return text, nil
}

// SigningKey reads the key that signs statements.
func (c Config) SigningKey() (key statement.Key, err error) {
	text, err := c.key(keyFile{
		c.Signing.KeyFile, "signs statements", "openssl genpkey -algorithm ed25519", files.ReadPrivate, func() []byte { return statement.NewKey().Encode() },
	})
	if err != nil {
		return key, err
	}
	if key, err = statement.ParseKey(text); err != nil {
		err = fmt.Errorf("key file %s: %w; restore it, or move it away to have a new one made, which others do not know yet", c.Signing.KeyFile, err)
	}
	return key, err
}

// CheckSigningKey reports a key that cannot be used. A missing key is not an error: it is made when first needed.
func (c Config) CheckSigningKey() (detail string, err error) {
	path := c.Signing.KeyFile
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && c.Replica.Address == "" {
		return path + ", made when first needed", nil
	}
	_, err = c.SigningKey()
	return path, err
}

// StateKeys reads the keys that open requestState, of which the first one seals it: a
// restarted server must be able to open what the last one sealed.
func (c Config) StateKeys() ([][32]byte, error) {
	text, err := c.key(keyFile{c.MCP.StateKeyFile, "seals questions to clients", "openssl rand -hex 32", files.Read, func() []byte {
		var key [32]byte
		_, _ = rand.Read(key[:]) // never fails
		return []byte(hex.EncodeToString(key[:]) + "\n")
	}})
	if err != nil {
		return nil, err
	}
	return parseKeys(c.MCP.StateKeyFile, string(text))
}

// parseKeys reads a file with one key in each line.
func parseKeys(path, text string) ([][32]byte, error) {
	lines := strings.Fields(text)
	keys := make([][32]byte, len(lines))
	for i, line := range lines {
		raw, err := hex.DecodeString(line)
		if err != nil || len(raw) != len(keys[i]) {
			return nil, fmt.Errorf("key file %s must hold 64 hex digits in each line; delete it to have a new one made", path)
		}
		copy(keys[i][:], raw)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("key file %s is empty; delete it to have a new key made", path)
	}
	return keys, nil
}

// decode reads the text of a configuration file. It returns every problem of the
// file, and the rest of the file is read nevertheless. It reports false if the
// text could not be read at all.
func (c *Config) decode(file string, text []byte) ([]error, bool) {
	body, err := parseYAML(text)
	if err != nil {
		return []error{misread(file, err)}, false
	}
	if n := expanded(body, map[string]int{}); n > maxExpanded {
		return []error{fmt.Errorf("configuration %s: its aliases expand to more than %d values: write the values out instead", file, maxExpanded)}, false
	}
	err = yaml.NewDecoder(bytes.NewReader(text), yaml.DisallowUnknownField()).Decode(c)
	if err == nil || errors.Is(err, io.EOF) {
		return nil, true
	}
	*c = Config{}
	first := []error{misread(file, err)}
	if body == nil {
		return first, false
	}
	r := configReader{file: file}
	r.value(body, reflect.ValueOf(c).Elem(), "")
	if len(r.problems) == 0 {
		return first, false // a mistake that shows only in the whole, such as one behind an alias
	}
	return r.problems, true
}

// parseYAML returns the first document of a text, or nil.
func parseYAML(text []byte) (ast.Node, error) {
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil || len(parsed.Docs) == 0 {
		return nil, err
	}
	return parsed.Docs[0].Body, nil
}

// misread is a mistake that the YAML library found, without the lines around it:
// they may hold a secret.
func misread(file string, err error) error {
	if at := (yaml.Error)(nil); errors.As(err, &at) && at.GetToken() != nil {
		p := at.GetToken().Position
		return fmt.Errorf("%s:%d:%d: %s", file, p.Line, p.Column, at.GetMessage())
	}
	return fmt.Errorf("configuration %s: %w", file, err)
}

// maxExpanded is the limit of values in a configuration whose aliases are expanded.
// Aliases of aliases can double the values with each line.
const maxExpanded = 100_000

// expanded counts the values of a node with its aliases replaced; more than
// maxExpanded is maxExpanded+1. It adds the anchors that it meets to sizes.
func expanded(n ast.Node, sizes map[string]int) int {
	total := 1
	add := func(parts ...ast.Node) {
		for _, part := range parts {
			total = min(total+expanded(part, sizes), maxExpanded+1)
		}
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		add(n.Value)
		sizes[n.Name.GetToken().Value] = total
	case *ast.AliasNode:
		total += sizes[n.Value.GetToken().Value]
	case *ast.TagNode:
		add(n.Value)
	case *ast.SequenceNode:
		add(n.Values...)
	case ast.MapNode:
		for i := n.MapRange(); i.Next(); {
			add(i.Key(), i.Value())
		}
	}
	return min(total, maxExpanded+1)
}

// places says where the values of a configuration file stand.
type places struct {
	file string
	root ast.Node // nil: nobody knows
}

// placesIn reads the file again, for the messages about it.
func placesIn(file string) places {
	if file == "" {
		return places{}
	}
	text, err := files.Read(file)
	if err != nil {
		return places{}
	}
	root, _ := parseYAML(text) // without it no place is known
	return places{file, root}
}

// of is what a message about the value at a path begins with: the place of its
// key, or of the innermost key around it that the file has.
func (p places) of(path ...string) string {
	at, n := "", p.root
	for _, name := range path {
		key, value := memberOf(n, name)
		if key == nil {
			break
		}
		position := key.GetToken().Position
		at, n = fmt.Sprintf("%s:%d:%d: ", p.file, position.Line, position.Column), value
	}
	return at
}

// memberOf returns the member of a mapping or the item of a list, and the node
// of its key, or nil.
func memberOf(n ast.Node, name string) (key, value ast.Node) {
	switch n := n.(type) {
	case *ast.AnchorNode:
		return memberOf(n.Value, name)
	case *ast.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Values) {
			return n.Values[i], n.Values[i]
		}
	case ast.MapNode:
		for i := n.MapRange(); i.Next(); {
			if text, ok := i.KeyValue().Key.(*ast.StringNode); ok && text.Value == name {
				return text, i.Value()
			}
		}
	}
	return nil, nil
}

// configReader reads a file that the strict decoder has refused. The decoder
// stops at the first mistake; the reader collects all of them.
type configReader struct {
	file     string
	problems []error
}

func (r *configReader) wrong(at ast.Node, format string, args ...any) {
	p := at.GetToken().Position
	r.problems = append(r.problems, fmt.Errorf("%s:%d:%d: %s", r.file, p.Line, p.Column, fmt.Sprintf(format, args...)))
}

// value reads a node into a field of the configuration.
func (r *configReader) value(n ast.Node, into reflect.Value, path string) {
	if anchor, ok := n.(*ast.AnchorNode); ok {
		n = anchor.Value
	}
	switch n.(type) {
	case *ast.NullNode, *ast.AliasNode: // an alias was read where its anchor is
		return
	}
	switch t := into.Type(); {
	case t.Kind() == reflect.Pointer:
		into.Set(reflect.New(t.Elem()))
		r.value(n, into.Elem(), path)
	case t.Kind() == reflect.Struct:
		r.section(n, into, path)
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		into.Set(reflect.MakeMap(t))
		r.members(n, path, func(name string, key, value ast.Node) {
			place := reflect.New(t.Elem()).Elem()
			r.value(value, place, path+"."+name)
			into.SetMapIndex(reflect.ValueOf(name), place)
		})
	default:
		// An alias inside has a value only in the whole file.
		if yaml.NodeToValue(n, into.Addr().Interface()) != nil && len(ast.Filter(ast.AliasType, n)) == 0 {
			r.wrong(n, "%s must be %s", path, inWords(t))
		}
	}
}

// section reads a mapping whose keys are the fields of a struct.
func (r *configReader) section(n ast.Node, into reflect.Value, path string) {
	var known []string
	at := map[string]reflect.Value{}
	for i := range into.NumField() {
		key := into.Type().Field(i).Tag.Get("yaml")
		known = append(known, key)
		at[key] = into.Field(i)
	}
	r.members(n, path, func(name string, key, value ast.Node) {
		full := strings.TrimPrefix(path+"."+name, ".")
		if field, ok := at[name]; ok {
			r.value(value, field, full)
			return
		}
		r.wrong(key, "unknown key %q%s", full, fields.Suggestion(name, known))
	})
}

// members calls do for each member of a mapping.
func (r *configReader) members(n ast.Node, path string, do func(name string, key, value ast.Node)) {
	mapping, ok := n.(ast.MapNode)
	if !ok {
		r.wrong(n, "%s must be a mapping of keys to values", cmp.Or(path, "the configuration"))
		return
	}
	for i := mapping.MapRange(); i.Next(); {
		key := i.KeyValue().Key
		if text, ok := key.(*ast.StringNode); ok {
			do(text.Value, key, i.Value())
		}
	}
}

// inWords says what a value of the type looks like in the file.
func inWords(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[Duration]():
		return "a duration such as 90s, 10m or 24h"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map:
		return "a mapping of keys to values"
	}
	return "a whole number"
}
