package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/operations"
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

// tools serves the tools and the operations.
type tools struct {
	engine     Engine
	operations operations.Engine
	check      func(tool string, arguments json.RawMessage) error // may be nil
	log        *slog.Logger
}

// served is a tool or an operation as it is served.
type served struct {
	api.Declaration
	// ofRun: its reply may report an error of the run, with status 200.
	ofRun bool
	// check judges the arguments. If it is nil the call does so itself.
	check func(arguments json.RawMessage) error
	reply func(ctx context.Context, c access.Caller, arguments []byte) (any, error)
}

// tool serves a tool.
func (t *tools) tool(row toolset.Tool) handler {
	s := served{Declaration: row.Declaration, ofRun: row.Open != nil}
	if t.check != nil {
		s.check = func(arguments json.RawMessage) error { return t.check(row.Name, arguments) }
	}
	s.reply = func(ctx context.Context, c access.Caller, arguments []byte) (any, error) {
		return row.Unasked(ctx, t.engine, c, arguments)
	}
	return t.handler(s)
}

// operation serves an operation.
func (t *tools) operation(row operations.Operation, runSpaces []string) handler {
	return t.handler(served{Declaration: row.Declaration, reply: func(ctx context.Context, c access.Caller, arguments []byte) (any, error) {
		if row.OfRuns {
			c.Groups = slices.Concat(c.Groups, runSpaces)
		}
		return row.Reply(ctx, t.operations, c, arguments)
	}})
}

// handler serves a row: it decodes, makes the call and encodes.
func (t *tools) handler(row served) handler {
	decode := arguments
	if row.Route.Document != nil {
		decode = document
	}
	return func(c *call) {
		metadata := map[string]any{}
		body, err := decode(c, row, metadata)
		if err != nil {
			t.fail(c, row, err)
			return
		}
		reply, err := row.reply(c.r.Context(), c.restCaller(), body)
		var undecoded *toolset.ArgumentsError
		if errors.As(err, &undecoded) {
			err = undecodable(undecoded.Unwrap())
		}
		if err != nil {
			t.fail(c, row, err)
			return
		}
		if counted, ok := reply.(interface{ Count() int }); ok {
			metadata["count"] = counted.Count()
		}
		t.succeed(c, row, reply, metadata)
	}
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
	return toolset.Clipped(name, 100), toolset.Clipped(version, 100)
}

// errMediaType: the body is not what the route takes.
var errMediaType = fault.New(fault.InvalidArgument, "the body must be JSON: send Content-Type: application/json")

// arguments are the body as the tool's schema has it.
func arguments(c *call, row served, _ map[string]any) ([]byte, error) {
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
	if err != nil || row.check == nil {
		return body, err
	}
	return body, row.check(body)
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

// withWholeURIs expands UUIDs to URIs.
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

// document are the arguments of a tool whose body is one text of its request.
// It adds to the metadata what the reply is to repeat.
func document(c *call, row served, metadata map[string]any) ([]byte, error) {
	d := row.Route.Document
	body := bytes.TrimSpace(c.body)
	if len(body) == 0 {
		return nil, fault.New(fault.InvalidArgument, "the body must be %s, and is empty", d.What)
	}
	if body[0] != '"' && json.Valid(body) {
		return nil, fault.New(fault.InvalidArgument,
			"the body must be %s, or a JSON string that holds it, and is other JSON; send the document itself", d.What)
	}
	in := map[string]any{d.Field: string(c.body)}
	for _, p := range d.Parameters {
		text := cmp.Or(c.parameter(p), p.Default)
		_, given := in[p.Field]
		switch {
		case p.Flag && truth(text):
			in[p.Field] = true
		case !p.Flag && !given && text != "":
			in[p.Field] = text
		}
	}
	for _, p := range d.Parameters {
		if p.Echo {
			metadata[p.Field] = in[p.Field]
		}
	}
	return json.Marshal(in)
}

// parameter returns the text of a parameter, or "" if it was not sent.
func (c *call) parameter(p api.Parameter) string {
	if p.In == api.InHeader {
		return c.r.Header.Get(p.Name)
	}
	return c.r.URL.Query().Get(p.Name)
}

func truth(s string) bool { return strings.EqualFold(s, "true") || s == "1" }

// succeed answers with the reply of the tool and what REST adds to it.
func (t *tools) succeed(c *call, row served, reply any, metadata map[string]any) {
	metadata["duration_ms"] = c.ms()
	b, err := api.EncodeReply(reply)
	if err != nil {
		t.fail(c, row, fmt.Errorf("encode a reply: %w", err))
		return
	}
	fields := json.RawMessage(b)
	extra, err := api.Encode(map[string]any{"metadata": metadata}, "")
	if err != nil {
		t.fail(c, row, fmt.Errorf("encode a reply: %w", err))
		return
	}
	if len(fields) > len("{}") {
		fields = append(append(fields[:len(fields)-1:len(fields)-1], ','), extra[1:]...)
	} else {
		fields = extra
	}
	c.raw(http.StatusOK, fields)
}

// fail answers with an error of a tool.
func (t *tools) fail(c *call, row served, err error) {
	f := t.shown(c, row.Name, err)
	known := fault.RowOf(f.Code)
	status, name := known.Status, cmp.Or(known.RESTName(), string(f.Code))
	if status == http.StatusOK && !row.ofRun {
		status = http.StatusConflict
	}
	switch {
	case f.Code == fault.Internal:
		name = row.Failed()
	case errors.Is(err, errMediaType):
		status = http.StatusUnsupportedMediaType
	case status == http.StatusServiceUnavailable:
		c.later(busyFor)
	}
	fields := f.Reply(row.Name)
	if status == http.StatusOK { // an error of the run, in the form of its replies
		t.succeed(c, row, fields, map[string]any{})
		return
	}
	if f.Code == fault.Forbidden && c.caller.Credential != "" { // RFC 6750, section 3.1
		c.w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", error_description="`+quotable(f.Message)+`"`)
	}
	fields["error"], fields["duration_ms"] = name, c.ms()
	b, err := api.EncodeReply(fields)
	if err != nil {
		c.json(http.StatusInternalServerError, map[string]any{"error": fault.Internal, "message": "the error could not be encoded"})
		return
	}
	c.raw(status, b)
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
