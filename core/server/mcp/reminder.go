package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// reminder names, in the first reply of a session, the run that an earlier session left open:
// a program that died and came back does not know it any more.
type reminder struct {
	engine  Reminders
	callers callers
	log     *slog.Logger
}

// earlier is what a session knows of those before it.
type earlier struct {
	looked bool
	open   *director.Unfinished // nil: nothing that its client has to be told
}

// reminded adds to the first reply of a session. The run is looked up before the call, which
// may begin another one.
func (r reminder) reminded(h server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		conn := originOf(ctx).conn
		if conn == nil {
			return h(ctx, req)
		}
		r.look(ctx, conn, req)
		res, err := h(ctx, req)
		if err != nil || res == nil {
			return res, err
		}
		reply, ok := res.StructuredContent.(json.RawMessage)
		if !ok { // a question to the client
			return res, nil
		}
		open := conn.takeEarlier()
		if open == nil || bytes.Contains(reply, []byte(open.Run)) {
			return res, nil
		}
		with, err := withMessage(reply, sentenceAbout(*open))
		if err != nil {
			return nil, fmt.Errorf("name the open run in a reply of %s: %w", req.Params.Name, err)
		}
		told := carrying(with)
		res.Content, res.StructuredContent = told.Content, told.StructuredContent
		return res, nil
	}
}

// look finds the run, once for each session; after a failure the next call looks again.
func (r reminder) look(ctx context.Context, conn *connection, req mcp.CallToolRequest) {
	conn.mu.Lock()
	looked := conn.earlier.looked
	conn.earlier.looked = true
	conn.mu.Unlock()
	if looked {
		return
	}
	open, err := r.engine.Unfinished(ctx, r.callers.of(ctx, req))
	if err != nil {
		r.log.WarnContext(ctx, "no run of an earlier session was looked up", "error", err)
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	conn.earlier = earlier{looked: err == nil, open: open}
}

// takeEarlier returns the run that the client has to be told of now, if there is one.
func (c *connection) takeEarlier() *director.Unfinished {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := c.earlier.open
	c.earlier.open = nil
	return open
}

// maxTitle limits the title of a protocol in a sentence, in bytes.
const maxTitle = 80

// sentenceAbout orders nothing: another window may be at work on the run.
func sentenceAbout(u director.Unfinished) string {
	where := fmt.Sprintf("at step %d of %d", u.Step, u.Steps)
	if u.Step > u.Steps {
		where = "with all steps solved and not attested"
	}
	return fmt.Sprintf("An earlier session left run %s of %q open, %s. If nobody else works on it, "+
		"continue it with %s, uri %s and session_id %s.", u.Run, plain.Clip(u.Title, maxTitle), where, api.ToolBegin, u.URI, u.Run)
}

// ahead are the members of a reply that stay before a message that is added.
var ahead = []string{"must_obey", "verified", "status", "error_code"}

// withMessage returns a reply with a sentence at the end of its message, before a link.
func withMessage(reply []byte, sentence string) ([]byte, error) {
	var known struct {
		Message     string `json:"message"`
		ApprovalURL string `json:"approval_url"`
	}
	if err := json.Unmarshal(reply, &known); err != nil {
		return nil, err
	}
	link := api.LinkSentence(known.ApprovalURL)
	message, linked := strings.CutSuffix(known.Message, link)
	if !linked || known.ApprovalURL == "" {
		message, link = known.Message, ""
	}
	text, err := api.EncodeReply(strings.TrimSpace(plain.Sentences(message, sentence) + " " + link))
	if err != nil {
		return nil, err
	}
	from, to, err := placeOfMessage(reply)
	if err != nil {
		return nil, err
	}
	if from == to {
		text = slices.Concat([]byte(`"message":`), text, []byte(","))
	}
	return slices.Concat(reply[:from], text, reply[to:]), nil
}

// placeOfMessage returns where the value of message stands in a reply or, empty, where the
// member belongs. Every reply has other members.
func placeOfMessage(reply []byte) (from, to int, err error) {
	members := json.NewDecoder(bytes.NewReader(reply))
	if _, err := members.Token(); err != nil {
		return 0, 0, err
	}
	place := 0
	for members.More() {
		at := int(members.InputOffset())
		name, err := members.Token()
		if err != nil {
			return 0, 0, err
		}
		var value json.RawMessage
		if err := members.Decode(&value); err != nil {
			return 0, 0, err
		}
		if end := int(members.InputOffset()); name == "message" {
			return end - len(value), end, nil
		}
		if name, _ := name.(string); place == 0 && !slices.Contains(ahead, name) {
			place = at + bytes.IndexByte(reply[at:], '"')
		}
	}
	return place, place, nil
}
