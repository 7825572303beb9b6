package infer_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/api/infer"
)

type part struct {
	_ struct{} `doc:"a part"`

	Name string `json:"name"`
}

type request struct {
	URI   string          `json:"uri" doc:"where" form:"uri"`
	Kind  string          `json:"kind,omitempty" required:"true" enum:"a,b"`
	Parts []part          `json:"parts" required:"false" min:"1" max:"3"`
	Names []string        `json:"names,omitempty" items:"min=1"`
	Part  *part           `json:"part,omitempty"`
	Score *float64        `json:"score" min:"0" max:"1"`
	Any   json.RawMessage `json:"any,omitempty" doc:"anything"`
	Raw   json.RawMessage `json:"raw,omitempty" doc:"read by somebody else"`
	Blob  part            `json:"blob" form:"opaque"`
	Named api.Position    `json:"named,omitzero" form:"null"`
}

func (request) Shapes() map[string]any { return map[string]any{"raw": part{}} }

func jsonOf(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTagsBecomeKeywords(t *testing.T) {
	got, err := infer.Request[request]()
	if err != nil {
		t.Fatal(err)
	}
	var want any
	text := `{
		"type": "object",
		"properties": {
			"uri": {"type": "string", "description": "where", "pattern": "^kairos://mem/[0-9a-fA-F-]{36}$"},
			"kind": {"type": "string", "enum": ["a", "b"]},
			"parts": {"type": "array", "minItems": 1, "maxItems": 3, "items":
				{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
			"names": {"type": "array", "items": {"type": "string", "minLength": 1}},
			"part": {"type": "object", "description": "a part", "properties": {"name": {"type": "string"}}, "required": ["name"]},
			"score": {"type": ["null", "number"], "minimum": 0, "maximum": 1},
			"any": {"description": "anything"},
			"raw": {"type": "object", "description": "read by somebody else", "properties": {"name": {"type": "string"}}, "required": ["name"]},
			"blob": {"type": "object", "description": "a part", "properties": {}},
			"named": {"type": ["object", "null"], "properties": {"step_index": {"type": "integer"}, "step_count": {"type": "integer"}},
				"required": ["step_index", "step_count"]}
		},
		"required": ["uri", "score", "blob", "kind"]
	}`
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, jsonOf(t, got)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestRepliesAreSuccessesOrFailures(t *testing.T) {
	got, err := infer.Reply[part]()
	if err != nil {
		t.Fatal(err)
	}
	s := jsonOf(t, got).(map[string]any)
	want := []any{
		map[string]any{"required": []any{"name"}},
		map[string]any{"required": []any{"message", "next_action", "error_code", "tried"}},
	}
	if diff := cmp.Diff(want, s["anyOf"]); diff != "" || s["required"] != nil {
		t.Errorf("anyOf (-want +got):\n%s\nrequired = %v, want none beside anyOf", diff, s["required"])
	}
	if diff := cmp.Diff([]string{"name", "must_obey", "message", "next_action", "next_call", "error_code", "tried"}, got.Properties()); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
	mint, err := infer.Reply[api.MintReply]()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mint.At("existing_memory"); err != nil {
		t.Error("a reply with failures of its own does not describe them")
	}
}

func TestAWrongTagIsAnError(t *testing.T) {
	for name, of := range map[string]func() (infer.Schema, error){
		"an old tag": infer.Request[struct {
			A string `json:"a" schema:"x"`
		}],
		"not a number": infer.Request[struct {
			A string `json:"a" min:"one"`
		}],
		"no length": infer.Request[struct {
			A bool `json:"a" max:"1"`
		}],
		"an unknown form": infer.Request[struct {
			A string `json:"a" form:"url"`
		}],
		"perhaps required": infer.Request[struct {
			A string `json:"a" required:"perhaps"`
		}],
	} {
		if _, err := of(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
