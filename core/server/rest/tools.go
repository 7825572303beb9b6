package rest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// undecodable names the field that has the wrong type.
func undecodable(err error) *fault.Error {
	var wrong *fields.TypeError
	if errors.As(fields.Plain(err), &wrong) && wrong.Pointer != "" {
		return fault.New(fault.InvalidArgument, "%s", wrong.Message)
	}
	return fault.New(fault.InvalidArgument, "the body must be a JSON object: %v", fields.Plain(err))
}

// failedName is the error name of what is nobody's fault but the server's.
func failedName(tool string) string {
	switch tool {
	case "":
		return "INTERNAL"
	case api.Mint.Name:
		return "STORE_FAILED"
	}
	return strings.ToUpper(strings.TrimPrefix(tool, "kairos_")) + "_FAILED"
}

// tools serves the tools.
type tools struct {
	engine Engine
	check  func(tool string, arguments json.RawMessage) error // may be nil
	log    *slog.Logger
}

// handler serves one tool: it decodes, calls the engine and encodes.
func (t *tools) handler(row toolset.Tool) handler {
	return func(c *call) {
		body, err := t.arguments(c, row.Name)
		if err != nil {
			t.fail(c, row.Name, err)
			return
		}
		reply, err := t.reply(c, row, body)
		var undecoded *toolset.ArgumentsError
		if errors.As(err, &undecoded) {
			err = undecodable(undecoded.Unwrap())
		}
		if err != nil {
			t.fail(c, row.Name, err)
			return
		}
		t.succeed(c, reply, map[string]any{"duration_ms": c.ms()})
	}
}

func (t *tools) reply(c *call, row toolset.Tool, body []byte) (any, error) {
	ctx, caller := c.r.Context(), c.restCaller()
	if row.Open == nil {
		return row.Reply(ctx, t.engine, caller, body)
	}
	return director.Unasked(ctx, t.engine, caller, func() (director.Round, error) { return row.Open(ctx, t.engine, caller, body) })
}

// restCaller is who calls, through a client that cannot be asked anything.
func (c *call) restCaller() access.Caller {
	caller := c.caller
	name, version := product(c.r.UserAgent())
	caller.Client = driver.Client{Name: name, Version: version, Transport: "rest"}
	return caller
}

// product is the first product of a User-Agent.
func product(agent string) (name, version string) {
	first, _, _ := strings.Cut(agent, " ")
	name, version, _ = strings.Cut(first, "/")
	return clip(name, 100), clip(version, 100)
}

func clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "")
	}
	return s
}

// errMediaType: the body is not what the route takes.
var errMediaType = fault.New(fault.InvalidArgument, "the body must be JSON: send Content-Type: application/json")

// arguments are the body as the tool's schema has it.
func (t *tools) arguments(c *call, tool string) ([]byte, error) {
	if media := c.mediaType(); media != "" && media != "application/json" && !strings.HasSuffix(media, "+json") {
		return nil, errMediaType
	}
	body := bytes.TrimSpace(c.body)
	if len(body) == 0 {
		body = []byte("{}")
	}
	if !json.Valid(body) || body[0] != '{' {
		var v map[string]json.RawMessage
		return nil, undecodable(json.Unmarshal(body, &v))
	}
	body, err := withWholeURIs(body)
	if err != nil || t.check == nil {
		return body, err
	}
	return body, t.check(tool, body)
}

func (c *call) mediaType() string {
	media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil {
		return c.r.Header.Get("Content-Type")
	}
	return media
}

// lastUUID is what REST clients may send instead of a URI: a UUID, or anything
// whose last part is one.
var lastUUID = regexp.MustCompile(`(?i)(?:^|/)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)

func wholeURI(s string) string {
	if m := lastUUID.FindStringSubmatch(strings.TrimSpace(s)); m != nil {
		return "kairos://mem/" + strings.ToLower(m[1])
	}
	return s
}

// withWholeURIs makes URIs of what stands for them.
func withWholeURIs(body []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, undecodable(err)
	}
	changed := false
	var one string
	if json.Unmarshal(fields["uri"], &one) == nil && wholeURI(one) != one {
		fields["uri"], changed = quoted(wholeURI(one)), true
	}
	var many []string
	if json.Unmarshal(fields["uris"], &many) == nil {
		for i, uri := range many {
			many[i] = wholeURI(uri)
			changed = changed || many[i] != uri
		}
	}
	if !changed {
		return body, nil
	}
	if many != nil {
		raw, err := json.Marshal(many)
		if err != nil {
			return nil, err
		}
		fields["uris"] = raw
	}
	return json.Marshal(fields)
}

func quoted(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always encodes
	return b
}

// mintRaw takes a document as it is.
func (t *tools) mintRaw(c *call) {
	query, header := c.r.URL.Query(), c.r.Header
	model := cmp.Or(query.Get("llm_model_id"), header.Get("X-LLM-Model-ID"), c.r.UserAgent(), "unknown")
	if len(bytes.TrimSpace(c.body)) == 0 {
		t.fail(c, api.Mint.Name, fault.New(fault.InvalidArgument, "the body must be the Markdown of a protocol, and is empty"))
		return
	}
	if body := bytes.TrimSpace(c.body); body[0] != '"' && json.Valid(body) {
		t.fail(c, api.Mint.Name, fault.New(fault.InvalidArgument,
			"the body must be the Markdown of a protocol, or a JSON string that holds it, and is other JSON; send the document itself"))
		return
	}
	reply, err := t.engine.Mint(c.r.Context(), c.restCaller(), api.MintRequest{
		Document: string(c.body), ModelID: model, Space: query.Get("space"),
		Force: truth(query.Get("force")) || truth(header.Get("X-Force-Update")),
	})
	if err != nil {
		t.fail(c, api.Mint.Name, err)
		return
	}
	t.succeed(c, reply, map[string]any{"count": len(reply.Items), "duration_ms": c.ms(), "llm_model_id": model})
}

func truth(s string) bool { return strings.EqualFold(s, "true") || s == "1" }

// succeed answers with the reply of the tool and what REST adds to it.
func (t *tools) succeed(c *call, reply any, metadata map[string]any) {
	b, err := api.Encode(reply, "")
	if err != nil {
		t.fail(c, "", fmt.Errorf("encode a reply: %w", err))
		return
	}
	fields := json.RawMessage(b)
	extra, err := api.Encode(map[string]any{"metadata": metadata}, "")
	if err != nil {
		t.fail(c, "", fmt.Errorf("encode a reply: %w", err))
		return
	}
	if len(fields) > len("{}") {
		fields = append(append(fields[:len(fields)-1:len(fields)-1], ','), extra[1:]...)
	} else {
		fields = extra
	}
	c.raw(http.StatusOK, fields)
}

// invalidInput is the error name of what a caller got wrong.
const invalidInput = "INVALID_INPUT"

// statuses says what an error of the engine is in HTTP. What is not listed is
// an error of the run: the reply of begin and next, a conflict elsewhere.
var statuses = map[fault.Code]struct {
	status int
	name   string // empty: the code itself
}{
	fault.InvalidArgument:    {http.StatusBadRequest, invalidInput},
	fault.NotFound:           {http.StatusNotFound, ""},
	fault.Forbidden:          {http.StatusForbidden, "forbidden"},
	fault.SpaceReadOnly:      {http.StatusForbidden, ""},
	fault.NoSpace:            {http.StatusForbidden, ""},
	fault.SpaceNotFound:      {http.StatusNotFound, ""},
	fault.DuplicateChain:     {http.StatusConflict, ""},
	fault.SimilarMemoryFound: {http.StatusConflict, ""},
	fault.Conflict:           {http.StatusConflict, ""},
	fault.StoreFailed:        {http.StatusInternalServerError, ""},
	fault.StoreUnavailable:   {http.StatusServiceUnavailable, ""},
	fault.DriverUnavailable:  {http.StatusServiceUnavailable, ""},
}

// fail answers with an error of a tool.
func (t *tools) fail(c *call, tool string, err error) {
	f := t.shown(c, tool, err)
	status, name := http.StatusConflict, string(f.Code)
	if at, ok := statuses[f.Code]; ok {
		status, name = at.status, cmp.Or(at.name, name)
	} else if tool == api.Begin.Name || tool == api.Next.Name {
		status = http.StatusOK
	}
	switch _, refused := f.Details["diagnostics"]; {
	case f.Code == fault.Internal:
		status, name = http.StatusInternalServerError, failedName(tool)
	case f.Code == fault.StoreFailed && refused:
		status = http.StatusUnprocessableEntity // the document's fault, not the server's
	case errors.Is(err, errMediaType):
		status = http.StatusUnsupportedMediaType
	case status == http.StatusServiceUnavailable:
		c.later(busyFor)
	}
	fields := f.Reply(tool)
	if status == http.StatusOK { // an error of the run, in the form of its replies
		t.succeed(c, fields, map[string]any{"duration_ms": c.ms()})
		return
	}
	fields["error"], fields["duration_ms"] = name, c.ms()
	c.json(status, fields)
}

// shown is what of an error the client may see; the rest is logged.
func (t *tools) shown(c *call, tool string, err error) *fault.Error {
	var f *fault.Error
	switch {
	case !errors.As(err, &f) || f.Code == fault.Internal:
		if c.r.Context().Err() == nil {
			t.log.ErrorContext(c.r.Context(), "tool call failed", "tool", tool, "error", err)
		}
		return fault.New(fault.Internal, "Internal error. Nothing was decided; the server's log has the cause.")
	case f.Unwrap() != nil:
		t.log.WarnContext(c.r.Context(), "tool call refused", "tool", tool, "error", err)
	}
	return f
}
