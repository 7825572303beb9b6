package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
)

var metaKeyVersion = []byte(mcp.MetaKeyProtocolVersion)

// versionInBody is the protocol version that the message itself names.
func versionInBody(body []byte) string {
	if !bytes.Contains(body, metaKeyVersion) {
		return "" // or written with escapes: then it is served as on stdio
	}
	var m struct {
		Params struct {
			Meta *mcp.Meta `json:"_meta"`
		} `json:"params"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return ""
	}
	return m.Params.Meta.ProtocolVersion()
}

// modern serves a message of the era without sessions: a session id is ignored.
func (p *post) modern(header, inBody string) {
	if p.kind == isAnswer {
		p.refuse(&replyError{Code: mcp.INVALID_REQUEST, Message: "in protocol version " +
			mcp.ProtocolVersion20260728 + " answers come with the call that is repeated"})
		return
	}
	if problem := p.modernProblem(header, inBody); problem != nil {
		p.refuse(problem)
		return
	}
	if p.kind == isNotification {
		p.w.WriteHeader(http.StatusAccepted) // a call is cancelled by closing its connection
		return
	}
	p.serve(&origin{transport: transportHTTP, who: p.who}, nil, modernStatus)
}

// modernProblem compares the headers with the message, and returns nil if they agree.
func (p *post) modernProblem(header, inBody string) *replyError {
	mismatch := func(text string) *replyError { return &replyError{Code: mcp.HEADER_MISMATCH, Message: text} }
	switch {
	case p.r.Header.Get(mcp.HeaderLastEventID) != "":
		return mismatch(mcp.HeaderLastEventID + ": streams cannot be resumed, send the request again")
	case header == "":
		return mismatch(mcp.HeaderProtocolVersion + " header is required")
	case inBody == "" && p.kind == isRequest:
		return &replyError{Code: mcp.INVALID_PARAMS, Message: "missing or invalid _meta field " + mcp.MetaKeyProtocolVersion}
	case inBody != "" && inBody != header:
		return mismatch(fmt.Sprintf("%s header %q, but the message says %q", mcp.HeaderProtocolVersion, header, inBody))
	case !mcp.IsValidProtocolVersion(header):
		e := mcp.UnsupportedProtocolVersionError{Version: header, Supported: mcp.ValidProtocolVersions}.JSONRPCError().Error
		return &replyError{Code: e.Code, Message: e.Message, Data: e.Data}
	case p.kind == isNotification && p.r.Header.Get(mcp.HeaderMethod) == "":
		return nil
	}
	err := mcp.ValidateStandardHeaders(p.r.Header.Get, header, mcp.MCPMethod(*p.msg.Method), p.msg.Params)
	if err != nil {
		return mismatch(err.Error())
	}
	return nil
}

// modernStatus is what 2026-07-28 prescribes for a reply.
func modernStatus(r *reply) int {
	if r.Error == nil {
		return http.StatusOK
	}
	switch r.Error.Code {
	case mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	case mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, mcp.UNSUPPORTED_PROTOCOL_VERSION,
		mcp.INVALID_REQUEST, mcp.INVALID_PARAMS, mcp.PARSE_ERROR:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
