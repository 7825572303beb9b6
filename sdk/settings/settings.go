// Package settings makes a driver's configuration of one struct: its fields and
// tags are the JSON Schema, the defaults, the checks and the documentation.
//
//	type config struct {
//		URL     string        `json:"url" required:"true" doc:"where the service answers"`
//		Timeout time.Duration `json:"timeout" default:"10s" min:"1s" max:"5m" doc:"how long to wait for it"`
//		Token   string        `json:"token" secret:"true" doc:"sent as bearer token"`
//	}
//
// A field is a string, bool, integer, float, time.Duration (a text such as
// "30s"), a slice, a map with string keys, a struct, json.RawMessage for any JSON
// value, or a pointer to one of these, which stays nil when nothing is said. Types
// that read JSON themselves, such as time.Time and []byte, are refused. The tags:
//
//	json      the key; a field without one is a mistake, "-" leaves it out
//	doc       what it means, for people
//	default   the value when the key is not there; slices, maps and structs as JSON
//	required  "true": the key has to be there
//	min, max  bounds of a number or duration, of the characters of a string,
//	          of the entries of a slice or map
//	enum      what a string may be, separated by commas
//	secret    "true": writeOnly in the schema, so that nobody shows the value
//
// Two things a schema cannot say: min and max of a duration (Read judges them,
// the description tells them) and a number that its Go type cannot hold.
package settings

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/shape"
)

// Of holds the settings of a driver, which are a struct S. It implements
// driver.Configurer, so a driver that embeds it is configured and always
// healthy. It is safe for concurrent use.
type Of[S any] struct {
	shape   *shape.Shape[S]
	checks  []func(S) []driver.Diagnostic
	current atomic.Pointer[S]
}

// New makes settings with their defaults in force. The checks are asked about
// settings that are sound by themselves; what they find with severity error
// keeps the settings from being taken. New panics when S is not such a struct
// as the package comment describes.
func New[S any](checks ...func(S) []driver.Diagnostic) *Of[S] {
	s := &Of[S]{shape: shape.Of[S](), checks: checks}
	defaults := s.shape.Defaults()
	s.current.Store(&defaults)
	return s
}

// Now returns the settings in force. Slices and maps in it are shared
// and must not be changed.
func (s *Of[S]) Now() S { return *s.current.Load() }

// Schema is the JSON Schema of the configuration, for Descriptor.ConfigSchema.
func (s *Of[S]) Schema() json.RawMessage { return s.shape.Schema() }

// Markdown is a table of the settings for the driver's documentation.
func (s *Of[S]) Markdown() string { return s.shape.Table() }

// Read judges a configuration and returns it with its defaults. Nothing at all
// counts as {}. With an error among the diagnostics the settings are not to be used.
func (s *Of[S]) Read(config json.RawMessage) (S, []driver.Diagnostic) {
	if len(config) == 0 {
		config = json.RawMessage("{}")
	}
	read, found := s.shape.Read(config, "")
	if fields.AnyError(found) {
		return read, found
	}
	for _, check := range s.checks {
		found = append(found, check(read)...)
	}
	return read, found
}

// Configure implements driver.Configurer. Settings with an error are not taken.
func (s *Of[S]) Configure(_ context.Context, config json.RawMessage, dryRun bool) ([]driver.Diagnostic, error) {
	read, found := s.Read(config)
	if !dryRun && !fields.AnyError(found) {
		s.current.Store(&read)
	}
	return found, nil
}

// CheckHealth implements driver.Configurer: there is nothing to be ill of. A
// driver that can be ill has its own method of this name.
func (*Of[S]) CheckHealth(context.Context) error { return nil }
