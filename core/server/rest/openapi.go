package rest

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// apiVersion is the version of the interface: that of the earlier server whose
// clients it serves.
const apiVersion = "3.0.0"

type object = map[string]any

// operatorScheme is the name of the security scheme of the calls of operators.
const operatorScheme = "operator"

// openAPI describes what REST serves as it is now: the types of challenges that
// a solution may have are those of the present drivers.
func (t *tools) openAPI(described func() []toolset.Served) handler {
	return func(c *call) {
		b, err := t.describe(described())
		if err != nil {
			t.log.ErrorContext(c.r.Context(), "cannot describe the interface", "error", err)
			c.refuse(fault.Internal, "Internal error; the server's log has the cause.")
			return
		}
		c.raw(http.StatusOK, b)
	}
}

// describe is the OpenAPI 3.1 document of what is served.
func (t *tools) describe(all []toolset.Served) ([]byte, error) {
	byName := make(map[string]toolset.Served, len(all))
	for _, t := range all {
		byName[t.Name] = t
	}
	schemas := object{"error": errorSchema(), "metadata": metadataSchema(), "health": healthSchema()}
	paths := object{}
	for _, row := range toolset.Table {
		t, ok := byName[row.Name]
		if !ok {
			return nil, fmt.Errorf("openapi: no tool %s", row.Name)
		}
		if err := addSchemas(schemas, t); err != nil {
			return nil, err
		}
		body, err := requestBody(row.Declaration, t)
		if err != nil {
			return nil, err
		}
		op := object{
			"operationId": t.Name, "summary": t.Title, "description": t.Description,
			"requestBody": body, "responses": toolResponses(row.Declaration),
		}
		if d := row.Route.Document; d != nil {
			op["description"] = t.Description + " Here the body is the document itself, or one JSON string that holds it."
			op["parameters"] = parameters(d)
			delete(schemas, t.Name+"_input")
		}
		paths[row.Path()] = object{"post": op}
	}
	if t.operations != nil {
		if err := addOperations(paths, schemas); err != nil {
			return nil, err
		}
	}
	addPlain(paths)
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "KAIROS", "version": apiVersion,
			"description": "The tools of KAIROS over plain HTTP: the same calls and replies as through MCP. " +
				"Beside them are the calls of operators, which the commands of kairos make with --url. Wherever a kairos://mem/ URI is expected, the UUID in it will do. What a caller got wrong in a run is a reply " +
				"with error_code and status 200; what could not be served is an error with its own status.",
		},
		"servers": []any{object{"url": "/"}},
		"paths":   paths,
		"components": object{"schemas": schemas, "securitySchemes": object{operatorScheme: object{
			"type": "http", "scheme": "bearer", "description": "The token of the server, in a file beside its admin socket. Only the calls of operators need it.",
		}}},
	}, "", "  ")
}

// addOperations adds the calls of operators.
func addOperations(paths, schemas object) error {
	for _, row := range operations.Table {
		t := toolset.Served{Name: row.Name, Title: row.Title, Description: row.Description, Input: row.Input().JSON(), Output: row.Output().JSON()}
		if err := addSchemas(schemas, t); err != nil {
			return err
		}
		body, err := requestBody(row.Declaration, t)
		if err != nil {
			return err
		}
		responses := toolResponses(row.Declaration)
		responses["401"] = object{"description": "Not an operator; the message says where the token is", "content": jsonContent(ref("error"))}
		paths[row.Path()] = object{"post": object{
			"operationId": row.Name, "summary": row.Title, "description": row.Description,
			"requestBody": body, "responses": responses, "security": []any{object{operatorScheme: []string{}}},
		}}
	}
	return nil
}

func addSchemas(schemas object, t toolset.Served) error {
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

// requestBody describes the body, which may be left out if no argument is required.
func requestBody(row api.Declaration, t toolset.Served) (object, error) {
	if d := row.Route.Document; d != nil {
		text := object{"schema": object{"type": "string", "minLength": 1}}
		return object{"required": true, "content": object{d.Media: text, "application/json": text}}, nil
	}
	var schema struct {
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(t.Input, &schema); err != nil {
		return nil, fmt.Errorf("openapi: input schema of %s: %w", t.Name, err)
	}
	return object{"required": len(schema.Required) > 0, "content": jsonContent(ref(t.Name + "_input"))}, nil
}

func parameters(d *api.DocumentBody) (out []any) {
	for _, p := range d.Parameters {
		if p.Description == "" {
			continue
		}
		schema := object{"type": "string"}
		if p.Flag {
			schema = object{"type": "boolean", "default": false}
		}
		out = append(out, object{"in": p.In, "name": p.Name, "description": p.Description, "schema": schema})
	}
	return out
}

// toolResponses lists the statuses that a tool can have.
func toolResponses(t api.Declaration) object {
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
	if t.Route.Document != nil {
		delete(reasons, "415")
		reasons["422"] = "The document is refused; diagnostics say why"
	}
	for status, reason := range reasons {
		out[status] = object{"description": reason, "content": jsonContent(ref("error"))}
	}
	return out
}

// addPlain adds the paths that are not tools.
func addPlain(paths object) {
	answer := func(description string, schema object) object {
		return object{"description": description, "content": jsonContent(schema)}
	}
	anything := object{"type": "object"}
	status := object{"type": "object", "properties": object{"status": object{"type": "string"}, "reason": object{"type": "string"}}, "required": []string{"status"}}
	paths["/api/snapshot"] = object{"post": object{
		"operationId": "snapshot", "summary": "Make a snapshot of the store",
		"responses": object{"202": answer("This store has no snapshots", object{
			"type": "object",
			"properties": object{
				"status": object{"const": "skipped"}, "target": object{"const": "qdrant"},
				"durationMs": object{"type": "integer"}, "message": object{"type": "string"},
			},
			"required": []string{"status", "target"},
		})},
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
				"description": "By the names of the earlier server: qdrant is the database with the index beside it, redis is always healthy",
				"properties":  object{"qdrant": part, "redis": part, "embedding": part},
			},
			"details": object{"type": "object"},
		},
		"required": []string{"status", "service", "version", "transport", "uptime", "dependencies"},
	}
}
