package rest

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/kairos-mcp/kairos/core/api"
)

// apiVersion is the version of the interface: that of the earlier server whose
// clients it serves.
const apiVersion = "3.0.0"

type object = map[string]any

// openAPI describes what REST serves as it is now: the types of challenges that
// a solution may have are those of the present drivers.
func (t *tools) openAPI(described func() []Tool) handler {
	return func(c *call) {
		b, err := OpenAPI(described())
		if err != nil {
			t.fail(c, "", err)
			return
		}
		c.raw(http.StatusOK, b)
	}
}

// OpenAPI is the OpenAPI 3.1 document of the REST mirror of the tools.
func OpenAPI(tools []Tool) ([]byte, error) {
	byName := make(map[string]Tool, len(tools))
	for _, t := range tools {
		byName[t.Name] = t
	}
	schemas := object{"error": errorSchema(), "metadata": metadataSchema(), "health": healthSchema()}
	paths := object{}
	for _, row := range jsonTools() {
		t, ok := byName[row.Name]
		if !ok {
			return nil, fmt.Errorf("openapi: no tool %s", row.Name)
		}
		if err := addSchemas(schemas, t); err != nil {
			return nil, err
		}
		paths["/api/"+t.Name] = object{"post": toolOperation(t)}
	}
	mint, ok := byName[api.Mint.Name]
	if !ok {
		return nil, fmt.Errorf("openapi: no tool %s", api.Mint.Name)
	}
	if err := addSchemas(schemas, mint); err != nil {
		return nil, err
	}
	delete(schemas, api.Mint.Name+"_input") // the body is the document itself
	paths["/api/kairos_mint/raw"] = object{"post": mintOperation(mint)}
	addPlain(paths)
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "KAIROS", "version": apiVersion,
			"description": "The tools of KAIROS over plain HTTP: the same calls and replies as through MCP. " +
				"Wherever a kairos://mem/ URI is expected, the UUID in it will do. What a caller got wrong in a run is a reply " +
				"with error_code and status 200; what could not be served is an error with its own status.",
		},
		"servers":    []any{object{"url": "/"}},
		"paths":      paths,
		"components": object{"schemas": schemas},
	}, "", "  ")
}

func addSchemas(schemas object, t Tool) error {
	for name, raw := range map[string]json.RawMessage{t.Name + "_input": t.Input, t.Name + "_output": t.Output} {
		var schema any
		if err := json.Unmarshal(raw, &schema); err != nil {
			return fmt.Errorf("openapi: schema %s: %w", name, err)
		}
		schemas[name] = schema
	}
	return nil
}

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

func jsonContent(schema object) object { return object{"application/json": object{"schema": schema}} }

func toolOperation(t Tool) object {
	return object{
		"operationId": t.Name, "summary": t.Title, "description": t.Description,
		"requestBody": object{"required": t.Name != api.Spaces.Name, "content": jsonContent(ref(t.Name + "_input"))},
		"responses":   toolResponses(t),
	}
}

func mintOperation(t Tool) object {
	op := object{
		"operationId": t.Name, "summary": t.Title,
		"description": t.Description + " Here the body is the document itself, or one JSON string that holds it.",
		"requestBody": object{"required": true, "content": object{
			"text/markdown":    object{"schema": object{"type": "string", "minLength": 1}},
			"application/json": object{"schema": object{"type": "string", "minLength": 1}},
		}},
		"responses": toolResponses(t),
	}
	var parameters []any
	for _, p := range []struct{ in, name, description string }{
		{"query", "llm_model_id", "The model that wrote it; comes before the header"},
		{"header", "X-LLM-Model-ID", "The model that wrote it; without either it is the User-Agent"},
		{"query", "space", "Where to store it; without: the caller's own space"},
	} {
		parameters = append(parameters, object{"in": p.in, "name": p.name, "description": p.description, "schema": object{"type": "string"}})
	}
	for _, p := range []struct{ in, name string }{{"query", "force"}, {"header", "X-Force-Update"}} {
		parameters = append(parameters, object{
			"in": p.in, "name": p.name, "description": "Replace a protocol of the same title, and store what is similar to another",
			"schema": object{"type": "boolean", "default": false},
		})
	}
	op["parameters"] = parameters
	return op
}

// toolResponses lists the statuses that a tool can have.
func toolResponses(t Tool) object {
	out := object{"200": object{
		"description": "The reply of the tool",
		"content": jsonContent(object{"allOf": []any{
			ref(t.Name + "_output"),
			object{"type": "object", "properties": object{"metadata": ref("metadata")}, "required": []any{"metadata"}},
		}}),
	}}
	reasons := map[string]string{
		"400": "The input is wrong; the message names the field", "403": "Not the caller's to do, or not from this host or origin",
		"404": "No such step, protocol, run or space", "409": "What is stored or running already is against it",
		"413": "The body is too large", "415": "The body is not JSON", "429": "Too many calls; see Retry-After",
		"500": "The server failed", "503": "Not now; see Retry-After",
	}
	if t.Name == api.Mint.Name {
		delete(reasons, "415")
		reasons["422"] = "The document is refused; diagnostics say why"
	}
	for status, reason := range reasons {
		out[status] = object{"description": reason, "content": jsonContent(ref("error"))}
	}
	return out
}

// addPlain adds what is no tool.
func addPlain(paths object) {
	answer := func(description string, schema object) object {
		return object{"description": description, "content": jsonContent(schema)}
	}
	anything := object{"type": "object"}
	status := object{"type": "object", "properties": object{"status": object{"type": "string"}, "reason": object{"type": "string"}}, "required": []string{"status"}}
	snapshot := object{
		"type": "object",
		"properties": object{
			"status": object{"enum": []string{"completed", "skipped", "failed"}}, "target": object{"const": "qdrant"},
			"snapshotName": object{"type": "string"}, "filePath": object{"type": "string"}, "bytesWritten": object{"type": "integer"},
			"durationMs": object{"type": "integer"}, "message": object{"type": "string"},
		},
		"required": []string{"status", "target"},
	}
	paths["/api/snapshot"] = object{"post": object{
		"operationId": "snapshot", "summary": "Make a snapshot of the store",
		"responses": object{
			"200": answer("The snapshot is made", snapshot), "202": answer("This store has no snapshots", snapshot), "502": answer("The store failed", snapshot),
		},
	}}
	for _, p := range []struct {
		path, id, summary string
		responses         object
	}{
		{"/api", "api", "List the endpoints", object{"200": answer("The endpoints", anything)}},
		{"/api/openapi.json", "openapi", "This document", object{"200": answer("An OpenAPI document", anything)}},
		{"/health", "health", "The server and what it depends on", object{
			"200": answer("healthy, or degraded: a part that is not vital is down", ref("health")), "503": answer("unhealthy", ref("health")),
		}},
		{"/healthz", "healthz", "Whether the process is alive", object{"200": answer("It is", status)}},
		{"/readyz", "readyz", "Whether calls can be served", object{"200": answer("They can", status), "503": answer("They cannot, for this reason", status)}},
	} {
		paths[p.path] = object{"get": object{"operationId": p.id, "summary": p.summary, "responses": p.responses}}
	}
}

func errorSchema() object {
	return object{
		"type": "object",
		"properties": object{
			"error": object{"type": "string", "description": "The reason, such as INVALID_INPUT"}, "message": object{"type": "string"},
			"error_code":  object{"type": "string", "description": "The reason as MCP has it, such as INVALID_ARGUMENT"},
			"next_action": object{"type": "string", "description": "The call that helps"},
			"must_obey":   object{"type": "boolean"}, "duration_ms": object{"type": "integer"},
		},
		"required": []string{"error", "message"},
	}
}

func metadataSchema() object {
	return object{
		"type": "object",
		"properties": object{
			"duration_ms": object{"type": "integer"}, "count": object{"type": "integer", "description": "Of stored steps"},
			"llm_model_id": object{"type": "string"},
		},
		"required": []string{"duration_ms"},
	}
}

func healthSchema() object {
	part := object{"enum": []string{isHealthy, isUnhealthy}}
	return object{
		"type": "object",
		"properties": object{
			"status": object{"enum": []string{isHealthy, isDegraded, isUnhealthy}}, "service": object{"const": "KAIROS"},
			"version": object{"type": "string"}, "transport": object{"const": "http"}, "uptime": object{"type": "integer", "description": "Seconds"},
			"dependencies": object{
				"type":        "object",
				"description": "By the names of the earlier server: qdrant is the store of protocols in use, redis is always healthy",
				"properties":  object{"qdrant": part, "redis": part, "embedding": part},
			},
			"details": object{"type": "object"},
		},
		"required": []string{"status", "service", "version", "transport", "uptime", "dependencies"},
	}
}
