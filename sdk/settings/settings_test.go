package settings_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
	"github.com/kairos-mcp/kairos/sdk/settings"
)

type limits struct {
	Tries int           `json:"tries" default:"3" min:"1" max:"10" doc:"attempts | in all"`
	Wait  time.Duration `json:"wait" default:"1m30s" doc:"between them"`
}

type host struct {
	Name string `json:"name" required:"true" min:"1"`
	Port uint16 `json:"port" default:"443" min:"1"`
}

type every struct {
	Text    string            `json:"text" default:"a" min:"1" max:"4" doc:"some text"`
	Mode    string            `json:"mode" default:"warm" enum:"cold,warm,hot"`
	On      bool              `json:"on" default:"true"`
	Small   int8              `json:"small"`
	Count   int64             `json:"count" default:"7"`
	Share   float64           `json:"share" default:"0.25" min:"0" max:"1"`
	Maybe   *float64          `json:"maybe" min:"0.5"`
	Every   time.Duration     `json:"every" default:"30s"`
	Words   []string          `json:"words" default:"[\"x\"]" max:"2"`
	Labels  map[string]int    `json:"labels" min:"0" max:"2"`
	Limits  limits            `json:"limits" doc:"how hard to try"`
	Hosts   []host            `json:"hosts"`
	ByName  map[string]limits `json:"by_name"`
	Token   string            `json:"token" secret:"true" doc:"sent as bearer token"`
	Ignored chan int          `json:"-"`
	hidden  func()            //nolint:unused // fields that are not exported are passed over
}

func TestDefaultsAreInForceAndValid(t *testing.T) {
	s := settings.New[every]()
	want := every{
		Text: "a", Mode: "warm", On: true, Count: 7, Share: 0.25, Every: 30 * time.Second, Words: []string{"x"},
		Limits: limits{Tries: 3, Wait: 90 * time.Second},
	}
	ignore := cmp.FilterPath(func(p cmp.Path) bool { return strings.HasSuffix(p.String(), "hidden") }, cmp.Ignore())
	if diff := cmp.Diff(want, s.Now(), ignore); diff != "" {
		t.Errorf("Now() (-want +got):\n%s", diff)
	}
	defaults := map[string]any{}
	var described struct {
		Properties map[string]struct{ Default json.RawMessage }
	}
	if err := json.Unmarshal(s.Schema(), &described); err != nil {
		t.Fatal(err)
	}
	for name, p := range described.Properties {
		if p.Default != nil {
			defaults[name] = p.Default
		}
	}
	document, err := json.Marshal(defaults)
	if err != nil || len(defaults) < 7 {
		t.Fatal(err, defaults)
	}
	if found := schema.Validate(s.Schema(), document); found != nil {
		t.Errorf("the defaults %s are not valid: %s", document, fields.Text(found))
	}
	if got, found := s.Read(document); found != nil || !cmp.Equal(want, got, ignore) {
		t.Errorf("Read(%s) = %+v, %s", document, got, fields.Text(found))
	}
}

func TestWhatIsWrongIsToldWithItsPlace(t *testing.T) {
	for config, want := range map[string]string{
		`{"text":""}`:                    "/text: must have at least 1 character, not 0",
		`{"text":"abcde"}`:               "/text: must have at most 4 characters, not 5",
		`{"text":null}`:                  "/text: must be a string, not null",
		`{"mode":"icy"}`:                 "/mode: must be one of cold, warm, hot",
		`{"on":"yes"}`:                   "/on: must be true or false, not a string",
		`{"small":128}`:                  "/small: must be at most 127",
		`{"count":1.5}`:                  "/count: must be a whole number",
		`{"count":9223372036854775808}`:  "/count: is out of range",
		`{"share":-0.1}`:                 "/share: must be at least 0",
		`{"maybe":0.4}`:                  "/maybe: must be at least 0.5",
		`{"every":30}`:                   "/every: must be a string, not a number",
		`{"every":"soon"}`:               `/every: must be a duration such as "30s", "1m30s" or "500ms"`,
		`{"words":["a","b","c"]}`:        "/words: must have at most 2 entries, not 3",
		`{"words":["a",2]}`:              "/words/1: must be a string, not a number",
		`{"labels":{"a/b":"1"}}`:         "/labels/a~1b: must be a number, not a string",
		`{"limits":{"tires":1}}`:         `/limits/tires: unknown key "tires"; did you mean "tries"?`,
		`{"hosts":[{"port":0}]}`:         "/hosts/0/name: is missing; /hosts/0/port: must be at least 1",
		`{"by_name":{"x":{"tries":11}}}`: "/by_name/x/tries: must be at most 10",
		`{"Text":"b"}`:                   `/Text: unknown key "Text"`,
		`{"on":true,"on":false}`:         `the key "on" occurs twice`,
		`[]`:                             "must be an object, not a list",
		`null`:                           "must be an object, not null",
		`{`:                              "cut off",
	} {
		_, found := settings.New[every]().Read(json.RawMessage(config))
		if got := fields.Text(found); !strings.HasPrefix(got, want) && !strings.Contains(got, want) || !fields.AnyError(found) {
			t.Errorf("Read(%s) says %q, want %q", config, got, want)
		}
	}
}

func TestDryRunLeavesNoTrace(t *testing.T) {
	s := settings.New[every]()
	for _, tc := range []struct {
		config string
		dryRun bool
		want   string
	}{
		{`{"text":"b"}`, true, "a"},
		{`{"text":"b"}`, false, "b"},
		{`{"text":"c","mode":"icy"}`, false, "b"},
		{``, true, "b"},
		{``, false, "a"},
	} {
		if _, err := s.Configure(t.Context(), json.RawMessage(tc.config), tc.dryRun); err != nil {
			t.Fatal(err)
		}
		if got := s.Now().Text; got != tc.want {
			t.Errorf("after Configure(%s, %v) the text is %q, want %q", tc.config, tc.dryRun, got, tc.want)
		}
	}
}

func TestChecksSeeSoundSettingsOnly(t *testing.T) {
	s := settings.New(func(l limits) []driver.Diagnostic {
		if l.Tries > 5 && l.Wait < time.Second {
			return []driver.Diagnostic{driver.Problem("/wait", "is too short for so many tries")}
		}
		return nil
	})
	for config, want := range map[string]string{
		`{"tries":6,"wait":"10ms"}`:  "/wait: is too short for so many tries",
		`{"tries":60,"wait":"10ms"}`: "/tries: must be at most 10",
		`{"tries":2,"wait":"10ms"}`:  "",
	} {
		if _, found := s.Read(json.RawMessage(config)); fields.Text(found) != want {
			t.Errorf("Read(%s) says %q, want %q", config, fields.Text(found), want)
		}
	}
}

// Read takes exactly the values that are valid by the schema.
func TestReadAndSchemaAgree(t *testing.T) {
	s := settings.New[every]()
	compiled, err := schema.Compile(s.Schema())
	if err != nil {
		t.Fatal(err)
	}
	agree := func(config json.RawMessage) string {
		_, found := s.Read(config)
		wrong := compiled.Validate(config)
		if fields.AnyError(found) == (len(wrong) > 0) {
			return ""
		}
		return fmt.Sprintf("%s: Read says %q, the schema %q", config, fields.Text(found), fields.Text(wrong))
	}
	for _, key := range keys { // each value alone in each place, so that none hides behind another
		for _, value := range scalars {
			for _, place := range []string{`{%q:%s}`, `{"limits":{%q:%s}}`, `{"hosts":[{"name":"n",%q:%s}]}`, `{"labels":{%q:%s}}`, `{"words":[%[2]s],%[1]q:%[2]s}`} {
				config := json.RawMessage(fmt.Sprintf(place, key, value))
				if problem := agree(config); problem != "" {
					t.Error(problem)
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if problem := agree(drawObject(t, 2)); problem != "" {
			t.Fatal(problem)
		}
	})
}

var (
	keys = []string{"text", "mode", "on", "small", "count", "share", "maybe", "every", "words", "labels", "limits", "hosts",
		"by_name", "token", "tries", "wait", "name", "port", "stray"}
	scalars = []string{`"a"`, `""`, `"hot"`, `"abcdé"`, `"30s"`, `"1h2m"`, `"-1s"`, `"1.5h"`, `"+1s"`, `".5s"`, `"999999h"`, `"1ns"`,
		`"\ud800"`, `true`, `false`, `null`, `0`, `1`, `-1`, `2.0`, `1e2`, `0.5`, `127`, `-128`, `128`, `65535`, `65536`, `-0`, `1e-3`}
)

func drawObject(t *rapid.T, depth int) json.RawMessage {
	var parts []string
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 0, 4, rapid.ID).Draw(t, "keys") {
		parts = append(parts, fmt.Sprintf("%q:%s", key, drawValue(t, depth-1)))
	}
	return json.RawMessage("{" + strings.Join(parts, ",") + "}")
}

func drawValue(t *rapid.T, depth int) string {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	switch {
	case depth > 0 && kind == 0:
		return string(drawObject(t, depth))
	case depth > 0 && kind == 1:
		var parts []string
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			parts = append(parts, drawValue(t, depth-1))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	return rapid.SampledFrom(scalars).Draw(t, "scalar")
}

// TestNearMisses: a struct that is almost right is refused when the driver is built.
func TestNearMisses(t *testing.T) {
	type loop struct {
		Next []any `json:"next"`
	}
	for want, build := range map[string]func(){
		"is not a struct":     func() { settings.New[string]() },
		"has no form in JSON": func() { settings.New[loop]() },
		"a time.Time reads JSON in its own way": func() {
			settings.New[struct {
				At time.Time `json:"at"`
			}]()
		},
		"a []uint8 is a string in JSON": func() {
			settings.New[struct {
				Key []byte `json:"key"`
			}]()
		},
		"a json.RawMessage has no max": func() {
			settings.New[struct {
				Any json.RawMessage `json:"any" max:"3"`
			}]()
		},
		`the default "nothing" is not JSON`: func() {
			settings.New[struct {
				Any json.RawMessage `json:"any" default:"nothing"`
			}]()
		},
		"has no json tag": func() {
			settings.New[struct{ Name string }]()
		},
		"is embedded": func() {
			settings.New[struct{ limits }]()
		},
		"holds itself": func() { settings.New[tree]() },
		"must be at most 10": func() {
			settings.New[struct {
				N int `json:"n" default:"11" max:"10"`
			}]()
		},
		"is required and has a default": func() {
			settings.New[struct {
				N int `json:"n" default:"11" required:"true"`
			}]()
		},
		"min 3 is more than max 2": func() {
			settings.New[struct {
				N int `json:"n" min:"3" max:"2"`
			}]()
		},
		`"yes", want "true"`: func() {
			settings.New[struct {
				N int `json:"n" secret:"yes"`
			}]()
		},
		"only a string has an enum": func() {
			settings.New[struct {
				N int `json:"n" enum:"1,2"`
			}]()
		},
		"must be a duration": func() {
			settings.New[struct {
				D time.Duration `json:"d" default:"30"`
			}]()
		},
	} {
		t.Run(want, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("New panics with %q, want %q", got, want)
				}
			}()
			build()
		})
	}
}

type tree struct {
	Kids []tree `json:"kids"`
}

func TestBoundsOfDurationsAreJudgedAndTold(t *testing.T) {
	s := settings.New[struct {
		Wait time.Duration `json:"wait" default:"10s" min:"1s" max:"5m" doc:"how long to wait"`
	}]()
	if !strings.Contains(string(s.Schema()), "how long to wait (from 1s to 5m)") {
		t.Errorf("the schema does not tell the bounds: %s", s.Schema())
	}
	for config, want := range map[string]string{
		`{"wait":"0.5s"}`: "/wait: must be at least 1s",
		`{"wait":"301s"}`: "/wait: must be at most 5m",
		`{"wait":"300s"}`: "",
	} {
		if _, found := s.Read(json.RawMessage(config)); fields.Text(found) != want {
			t.Errorf("Read(%s) says %q, want %q", config, fields.Text(found), want)
		}
	}
}
