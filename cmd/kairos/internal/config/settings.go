package config

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/tty"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Setting is a key of the configuration with the value that is used.
type Setting struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	// From is where the value comes from: the file, the environment, a flag, or the
	// default.
	From string `json:"from"`
}

// Where a setting comes from.
const (
	FromDefault     = "default"
	FromFile        = "file"
	FromEnvironment = "environment"
	FromFlag        = "flag"
)

// Settings lists every key that has a value, in the order of the schema. What may
// be secret is not in it: the settings of drivers are named without their values,
// and addresses have no passwords.
func (s Source) Settings() ([]Setting, error) {
	schema, err := orderedSchema()
	if err != nil {
		return nil, err
	}
	stages, err := s.stages()
	if err != nil {
		return nil, err
	}
	var all []Setting
	eachKey("", schema, func(key string, of yaml.MapSlice) {
		set := Setting{Key: key, Value: member(of, "default"), From: FromDefault}
		before := at(stages[0].values, key)
		for _, stage := range stages[1:] {
			now := at(stage.values, key)
			if !reflect.DeepEqual(now, before) && fmt.Sprint(now) != fmt.Sprint(set.Value) {
				set.Value, set.From = now, stage.from
			}
			before = now
		}
		if set.Value != nil {
			set.Value = shown(set.Value)
			all = append(all, set)
		}
	})
	return all, nil
}

// stage is what the configuration is after one source of values was read; the
// first is before any.
type stage struct {
	from   string
	values map[string]any
}

func (s Source) stages() ([]stage, error) {
	var stages []stage
	var errs []error
	tell := func(from string, c Config) {
		b, err := yaml.Marshal(c)
		values := map[string]any{}
		errs = append(errs, err, yaml.Unmarshal(b, &values))
		stages = append(stages, stage{from, values})
	}
	tell("", Config{})
	_, err := s.assembleIn(tell)
	return stages, errors.Join(append(errs, err)...)
}

// eachKey calls do for each key of an object of the schema that holds a value.
// Objects whose keys are names are values.
func eachKey(prefix string, object yaml.MapSlice, do func(key string, of yaml.MapSlice)) {
	properties, _ := member(object, "properties").(yaml.MapSlice)
	for _, p := range properties {
		of, _ := p.Value.(yaml.MapSlice)
		key := prefix + fmt.Sprint(p.Key)
		if member(of, "properties") != nil {
			eachKey(key+".", of, do)
			continue
		}
		do(key, of)
	}
}

// at returns the value of a key such as drivers.dir, or nil.
func at(values map[string]any, key string) any {
	name, rest, below := strings.Cut(key, ".")
	if !below {
		return values[name]
	}
	inner, _ := values[name].(map[string]any)
	return at(inner, rest)
}

// shown is a value without what may be secret.
func shown(value any) any {
	switch v := value.(type) {
	case map[string]any: // the settings of drivers and what else is by name
		names := map[string]any{}
		for name := range v {
			names[name] = "***"
		}
		return names
	case string:
		if u, err := url.Parse(v); err == nil && u.User != nil {
			return u.Redacted()
		}
	}
	return value
}

// Starter is a configuration file to begin with: what a person decides first, with values
// that work.
const Starter = `# Configuration of KAIROS: check it with "kairos config check", see every key with "kairos init --all -".
database: kairos.db # a SQLite file beside this one, or postgres://USER@HOST/NAME
http:
  listen: 127.0.0.1:3300 # where "kairos serve --http" listens
approval:
  ttl: 1h # how long an approval may be used
run:
  ttl: 168h # how long a run may stay open
  keep: 2160h # how long a run is kept that has ended
log:
  level: info # or debug, warn, error
# rules: [{space: production, evidence: server}] # what must hold there, whatever protocols say
`

// Sample is a configuration file with every key, its meaning and its default, all
// of it in comments.
func Sample() (string, error) {
	schema, err := orderedSchema()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(`# Configuration of KAIROS. Every key is a comment: remove the # from what you change,
# and from the keys that it belongs to. kairos config check finds mistakes.
`)
	writeSample(&b, "", schema)
	return b.String(), nil
}

func orderedSchema() (yaml.MapSlice, error) {
	var schema yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(Schema, &schema, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("read the schema of the configuration: %w", err)
	}
	return schema, nil
}

// writeSample writes the keys of an object of the schema.
func writeSample(b *strings.Builder, indent string, object yaml.MapSlice) {
	properties, _ := member(object, "properties").(yaml.MapSlice)
	for _, p := range properties {
		of, _ := p.Value.(yaml.MapSlice)
		if indent == "" {
			b.WriteString("\n")
		}
		if meaning, ok := member(of, "description").(string); ok {
			comment := "\n" + indent + "# "
			fmt.Fprintf(b, "%s%s\n", comment[1:], strings.ReplaceAll(tty.Wrap(meaning, sampleWidth-len(indent), ""), "\n", comment))
		}
		each, byName := member(of, "additionalProperties").(yaml.MapSlice)
		switch {
		case byName:
			fmt.Fprintf(b, "#%s%s:\n#%s  NAME:\n", indent, p.Key, indent)
			writeSample(b, indent+"    ", each)
		case member(of, "properties") != nil:
			fmt.Fprintf(b, "#%s%s:\n", indent, p.Key)
			writeSample(b, indent+"  ", of)
		default:
			fmt.Fprintf(b, "#%s%s:%s\n", indent, p.Key, preset(of))
		}
	}
}

// sampleWidth is where comments are wrapped.
const sampleWidth = 90

// preset is the default of a key behind its colon; empty: no constant is.
func preset(of yaml.MapSlice) string {
	value := member(of, "default")
	if value == nil {
		return ""
	}
	text, err := yaml.MarshalWithOptions(value, yaml.Flow(true))
	if err != nil {
		return ""
	}
	return " " + strings.TrimSpace(string(text))
}

func member(object yaml.MapSlice, name string) any {
	for _, m := range object {
		if m.Key == name {
			return m.Value
		}
	}
	return nil
}

// Schema describes config; a test compares the two.
//
//go:embed config.schema.json
var Schema []byte

type logConfig struct {
	Level  string `yaml:"level"`
	Format string `yaml:"format"`
}

func (l logConfig) level() (slog.Level, error) {
	var level slog.Level
	switch strings.ToLower(l.Level) {
	case "":
		return level, nil
	case "warning":
		return slog.LevelWarn, nil
	}
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return level, fmt.Errorf("log.level is %q: must be debug, info, warn or error", l.Level)
	}
	return level, nil
}

// Logger writes as configured to stderr, because stdout carries MCP frames, and the
// same as JSON to records, with one call for each.
func (l logConfig) Logger(stderr, records io.Writer) (*slog.Logger, error) {
	level, err := l.level()
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: level}
	var shown slog.Handler = slog.NewTextHandler(stderr, options)
	if l.Format == "json" {
		shown = slog.NewJSONHandler(stderr, options)
	}
	return slog.New(traceHandler{slog.NewMultiHandler(shown, slog.NewJSONHandler(records, options))}), nil
}

// traceHandler adds the trace of the context to each record. It is for handlers
// that are not grouped.
type traceHandler struct{ slog.Handler }

func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if t := driver.TraceOf(ctx); t != "" {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", t[3:35]))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}
