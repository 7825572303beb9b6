package config

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
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
