package shape_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/sdk/shape"
)

type part struct {
	_ struct{} `doc:"a part"`

	Name string `json:"name"`
}

type common struct {
	ID int64 `json:"id"`
}

type request struct {
	common

	URI   string           `json:"uri" doc:"where" form:"uri"`
	Kind  string           `json:"kind,omitempty" required:"true" enum:"a,b"`
	Parts []part           `json:"parts" required:"false" min:"1" max:"3"`
	Names []string         `json:"names,omitempty" items:"min=1"`
	Part  *part            `json:"part,omitempty"`
	Score *float64         `json:"score" min:"0" max:"1"`
	At    time.Time        `json:"at,omitzero"`
	Any   json.RawMessage  `json:"any,omitempty" doc:"anything"`
	Raw   json.RawMessage  `json:"raw,omitempty" doc:"read by somebody else"`
	Blob  part             `json:"blob" form:"opaque"`
	Named map[string]*part `json:"named,omitempty"`
	None  json.RawMessage  `json:"none,omitempty" form:"null"`
}

func (request) Shapes() map[string]any { return map[string]any{"raw": part{}} }

func TestTagsBecomeKeywords(t *testing.T) {
	want := strings.NewReplacer("\n", "", "\t", "").Replace(`{"type":"object","properties":{
		"id":{"type":"integer"},
		"uri":{"type":"string","description":"where","pattern":"^kairos://mem/[0-9a-fA-F-]{36}$"},
		"kind":{"type":"string","enum":["a","b"]},
		"parts":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]},"minItems":1,"maxItems":3},
		"names":{"type":"array","items":{"type":"string","minLength":1}},
		"part":{"type":"object","properties":{"name":{"type":"string"}},"description":"a part","required":["name"]},
		"score":{"type":["null","number"],"minimum":0,"maximum":1},
		"at":{"type":"string"},
		"any":{"description":"anything"},
		"raw":{"type":"object","properties":{"name":{"type":"string"}},"description":"read by somebody else","required":["name"]},
		"blob":{"type":"object","description":"a part","additionalProperties":true},
		"named":{"type":"object","additionalProperties":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}},
		"none":{"type":["object","null"],"additionalProperties":true}
		},"required":["id","uri","kind","score","blob"]}`)
	if got := string(shape.SchemaOf(request{}).JSON()); got != want {
		t.Errorf("SchemaOf = %s, want %s", got, want)
	}
}

func TestAStructWithoutASchemaIsRefused(t *testing.T) {
	for name, value := range map[string]any{
		"not a number": struct {
			A string `json:"a" min:"one"`
		}{},
		"no length": struct {
			A bool `json:"a" max:"1"`
		}{},
		"an unknown form": struct {
			A string `json:"a" form:"url"`
		}{},
		"items of a string": struct {
			A string `json:"a" items:"uri"`
		}{},
		"perhaps required": struct {
			A string `json:"a" required:"perhaps"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			shape.SchemaOf(value)
		}()
	}
}
