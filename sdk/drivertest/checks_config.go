package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// configSchema is what the kit reads of a config_schema.
type configSchema struct {
	Properties           map[string]propertySchema  `json:"properties"`
	AdditionalProperties json.RawMessage            `json:"additionalProperties"`
	PatternProperties    map[string]json.RawMessage `json:"patternProperties"`
}

type propertySchema struct {
	Type    json.RawMessage   `json:"type"`
	Enum    []json.RawMessage `json:"enum"`
	Minimum *float64          `json:"minimum"`
	Maximum *float64          `json:"maximum"`
}

// types lists the types a property may have.
func (p propertySchema) types() []string {
	var one string
	if json.Unmarshal(p.Type, &one) == nil && one != "" {
		return []string{one}
	}
	var several []string
	_ = json.Unmarshal(p.Type, &several) // anything else says nothing
	return several
}

func configNonsense(ctx context.Context, s Subject) error {
	// A transport that carries JSON cannot even ask the driver: an error.
	found, err := s.Configurer.Configure(ctx, json.RawMessage(`{"`), true)
	if err == nil && len(found) == 0 {
		return errors.New("took `{\"` without a word")
	}
	return s.lives(ctx)
}

// refused reports whether a configuration was not taken.
func refused(found []driver.Diagnostic, err error) bool {
	return err != nil || slices.ContainsFunc(found, func(d driver.Diagnostic) bool { return d.Severity == driver.SeverityError })
}

func dryRun(ctx context.Context, s Subject, config json.RawMessage) (taken bool, says string) {
	found, err := s.Configurer.Configure(ctx, config, true)
	if err != nil {
		return false, err.Error()
	}
	return !refused(found, nil), printed(found)
}

// configSchemaOf returns the schema and the configuration of the samples, or why
// there is nothing to check: unless that one is taken, a refusal proves nothing.
func configSchemaOf(ctx context.Context, s Subject) (configSchema, map[string]json.RawMessage, error) {
	var schema configSchema
	if err := json.Unmarshal(s.Descriptor.ConfigSchema, &schema); err != nil {
		return schema, nil, fmt.Errorf("read its config_schema: %w", err)
	}
	base := map[string]json.RawMessage{}
	if len(s.Config) > 0 {
		if err := json.Unmarshal(s.Config, &base); err != nil {
			return schema, nil, skip("the configuration of the samples is not an object", `"config" in the sample file`)
		}
	}
	if taken, _ := dryRun(ctx, s, s.Config); !taken {
		return schema, nil, skip("no sound configuration is known", `"config" in the sample file`)
	}
	return schema, base, nil
}

func configSound(ctx context.Context, s Subject) error {
	taken, says := dryRun(ctx, s, s.Config)
	switch {
	case taken:
		return nil
	case len(s.Config) == 0:
		return skip("it refuses to be without configuration: "+cut(says), `"config" in the sample file`)
	}
	return fmt.Errorf("refused: %s", says)
}

func configUnknownKey(ctx context.Context, s Subject) error {
	schema, base, err := configSchemaOf(ctx, s)
	if err != nil {
		return err
	}
	if extra := string(schema.AdditionalProperties); (extra != "" && extra != "false") || len(schema.PatternProperties) > 0 {
		return unconcerned("its schema allows further keys")
	}
	if taken, _ := dryRun(ctx, s, with(base, "kairos_unknown_key", json.RawMessage(`1`))); taken {
		return errors.New(`took a configuration with "kairos_unknown_key" without an error: a mistyped key would do nothing`)
	}
	return nil
}

// wrongFor lists values of other types.
func wrongFor(types []string) []json.RawMessage {
	values := []struct{ typ, text string }{
		{"string", `"kairos"`}, {"number", `1.5`}, {"boolean", `true`}, {"array", `[]`}, {"object", `{}`},
	}
	var out []json.RawMessage
	for _, v := range values {
		if !slices.Contains(types, v.typ) {
			out = append(out, json.RawMessage(v.text))
		}
	}
	return out
}

func configWrongType(ctx context.Context, s Subject) error {
	schema, base, err := configSchemaOf(ctx, s)
	if err != nil {
		return err
	}
	typed := 0
	for _, key := range slices.Sorted(maps.Keys(schema.Properties)) {
		types := schema.Properties[key].types()
		if len(types) == 0 {
			continue
		}
		typed++
		for _, wrong := range wrongFor(types) {
			if taken, _ := dryRun(ctx, s, with(base, key, wrong)); taken {
				return fmt.Errorf("took %s for %q, which is of type %v", wrong, key, types)
			}
		}
	}
	if typed == 0 {
		return unconcerned("its schema names no types")
	}
	return nil
}

// configDryRun judges other configurations and looks whether calls still
// answer as before.
func configDryRun(ctx context.Context, s Subject) error {
	schema, base, err := configSchemaOf(ctx, s)
	if err != nil {
		return err
	}
	if len(s.Samples) == 0 {
		return skip("there is no sample whose answer could change", "samples")
	}
	if s.Descriptor.Effect == driver.EffectChanges {
		return unconcerned("a call changes the world and is not made twice")
	}
	before := answers(ctx, s)
	if s.lives(ctx) != nil {
		return skip("a sample ends the driver", "samples that pass "+soundResultID)
	}
	for _, other := range otherConfigs(schema, base) {
		dryRun(ctx, s, other)
		for i, after := range answers(ctx, s) {
			if after != before[i] {
				return fmt.Errorf("sample %q: after a dry run of %s it is\n%s\nbut it was\n%s",
					s.Samples[i].Name, other, after, before[i])
			}
		}
	}
	return nil
}

// answers are the results of the samples, in words; of a driver that looks at
// the world only the outcomes.
func answers(ctx context.Context, s Subject) []string {
	out := make([]string, len(s.Samples))
	for i, sample := range s.Samples {
		result, err := s.call(ctx, sample.Request)
		switch {
		case err != nil:
			out[i] = "an error"
		case s.Descriptor.Effect == driver.EffectPure:
			out[i] = printed(result)
		default:
			out[i] = fmt.Sprint(outcomes(result))
		}
	}
	return out
}

const maxOtherConfigs = 24

// otherConfigs are configurations that differ in one value and are likely to
// be sound; the driver judges that itself.
func otherConfigs(schema configSchema, base map[string]json.RawMessage) []json.RawMessage {
	out := []json.RawMessage{json.RawMessage(`{}`)}
	for _, key := range slices.Sorted(maps.Keys(schema.Properties)) {
		for _, value := range valuesOf(schema.Properties[key]) {
			if len(out) < maxOtherConfigs && string(base[key]) != string(value) {
				out = append(out, with(base, key, value))
			}
		}
	}
	return out
}

func valuesOf(p propertySchema) []json.RawMessage {
	out := slices.Clone(p.Enum)
	if slices.Contains(p.types(), "boolean") {
		out = append(out, json.RawMessage(`true`), json.RawMessage(`false`))
	}
	if slices.Contains(p.types(), "string") {
		out = append(out, json.RawMessage(`"another"`))
	}
	for _, bound := range []*float64{p.Minimum, p.Maximum} {
		if bound != nil {
			out = append(out, json.RawMessage(printed(*bound)))
		}
	}
	if slices.Contains(p.types(), "integer") || slices.Contains(p.types(), "number") {
		out = append(out, json.RawMessage(`1`), json.RawMessage(`1000`))
	}
	if slices.Contains(p.types(), "array") {
		out = append(out, json.RawMessage(`[]`), json.RawMessage(`["another"]`))
	}
	return out
}

// with is a copy of the configuration with one key set.
func with(base map[string]json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	out := maps.Clone(base)
	out[key] = value
	return json.RawMessage(printed(out))
}
