package rest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write the golden file docs/openapi.json")

const golden = "../../../docs/openapi.json"

func TestOpenAPIIsTheCommittedOne(t *testing.T) {
	got := newWorld(t, nil).get("/api/openapi.json").want(200, "").body
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("openapi.json (-committed +served); write it with go test ./core/server/rest -run OpenAPI -update:\n%s", diff)
	}
}

type openAPI struct {
	OpenAPI string
	Info    struct{ Title, Version string }
	Paths   map[string]map[string]operation
	Schemas struct {
		Schemas map[string]any
	} `json:"components"`
}

type operation struct {
	OperationID string `json:"operationId"`
	Summary     string
	RequestBody *struct {
		Content map[string]struct{ Schema any }
	}
	Parameters []struct {
		In, Name string
		Schema   any
	}
	Responses map[string]struct {
		Description string
		Content     map[string]struct{ Schema any }
	}
}

func TestOpenAPIIsValid(t *testing.T) {
	raw := newWorld(t, nil).get("/api/openapi.json").body
	var doc openAPI
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") || doc.Info.Title == "" || doc.Info.Version == "" {
		t.Errorf("openapi %q, info %+v", doc.OpenAPI, doc.Info)
	}
	// The whole document is a resource, so that a schema in it may be compiled where it is.
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("kairos:///openapi", v); err != nil {
		t.Fatal(err)
	}
	for name := range doc.Schemas.Schemas {
		if _, err := compiler.Compile("kairos:///openapi#/components/schemas/" + name); err != nil {
			t.Errorf("schema %s: %v", name, err)
		}
	}
	ids := map[string]bool{}
	for path, item := range doc.Paths {
		for method, op := range item {
			at := method + " " + path
			if !slices.Contains([]string{"get", "post"}, method) || !strings.HasPrefix(path, "/") {
				t.Errorf("%s is not an operation", at)
			}
			if op.OperationID == "" || ids[op.OperationID] || op.Summary == "" {
				t.Errorf("%s: operation id %q and summary %q must be there and the id used once", at, op.OperationID, op.Summary)
			}
			ids[op.OperationID] = true
			op.check(t, at, method)
		}
	}
	for _, m := range regexp.MustCompile(`"\$ref": "([^"]*)"`).FindAllStringSubmatch(string(raw), -1) {
		name, ok := strings.CutPrefix(m[1], "#/components/schemas/")
		if _, there := doc.Schemas.Schemas[name]; !ok || !there {
			t.Errorf("reference %s leads nowhere", m[1])
		}
	}
}

func (op operation) check(t *testing.T, at, method string) {
	t.Helper()
	if op.RequestBody != nil && (method == "get" || len(op.RequestBody.Content) == 0) {
		t.Errorf("%s: request body %+v", at, op.RequestBody)
	}
	for _, p := range op.Parameters {
		if !slices.Contains([]string{"query", "header"}, p.In) || p.Name == "" || p.Schema == nil {
			t.Errorf("%s: parameter %+v", at, p)
		}
	}
	if len(op.Responses) == 0 {
		t.Errorf("%s has no responses", at)
	}
	for status, r := range op.Responses {
		if len(status) != 3 || r.Description == "" || r.Content["application/json"].Schema == nil {
			t.Errorf("%s: response %s %+v", at, status, r)
		}
	}
}

func TestEveryOperationOfOpenAPIIsServed(t *testing.T) {
	w := newWorld(t, nil)
	var doc openAPI
	if err := json.Unmarshal(w.get("/api/openapi.json").body, &doc); err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths {
		for method := range item {
			if a := w.do(strings.ToUpper(method), path, nil); a.status == 404 || a.status == 405 {
				t.Errorf("%s %s = %d", method, path, a.status)
			}
		}
	}
	for name, at := range w.get("/api").fields["endpoints"].(map[string]any) {
		method, path, _ := strings.Cut(at.(string), " ")
		if _, ok := doc.Paths[path][strings.ToLower(method)]; !ok {
			t.Errorf("the card lists %s as %s, which openapi.json has not", name, at)
		}
	}
}
