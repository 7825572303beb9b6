package mcp

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
)

// noSession replies that the caller has no such session.
func noSession(rw http.ResponseWriter) {
	refuseHTTP(rw, http.StatusNotFound, codeNoSession, "no such session: initialize again")
}

// unavailable asks the client to try again.
func unavailable(rw http.ResponseWriter, why string) {
	rw.Header().Set("Retry-After", strconv.Itoa(1))
	refuseHTTP(rw, http.StatusServiceUnavailable, codeBadRequest, why)
}

func refuse500(rw http.ResponseWriter, id json.RawMessage) {
	writeJSON(rw, http.StatusInternalServerError,
		refusal(id, &replyError{Code: mcp.INTERNAL_ERROR, Message: "internal error"}))
}

// refuseHTTP replies with an error about the HTTP request.
func refuseHTTP(rw http.ResponseWriter, status, code int, text string) {
	writeJSON(rw, status, refusal(nil, &replyError{Code: code, Message: text}))
}

func writeJSON(rw http.ResponseWriter, status int, v any) {
	text, err := api.Encode(v, "")
	if err != nil {
		http.Error(rw, "internal error", http.StatusInternalServerError)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_, _ = rw.Write(text) // a client that is gone needs no reply
}

// accepts reports whether the Accept header admits the media type. The most
// exact of its ranges decides. Without the header, which the specification
// requires, nothing is admitted.
func accepts(h http.Header, want string) bool {
	family, _, _ := strings.Cut(want, "/")
	best, admitted := 0, false
	for _, line := range h.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(part, ";")
			exact := 0
			switch strings.ToLower(strings.TrimSpace(name)) {
			case want:
				exact = 3
			case family + "/*":
				exact = 2
			case "*/*":
				exact = 1
			}
			if exact > best {
				best, admitted = exact, weight(params) > 0
			}
		}
	}
	return admitted
}

// weight is the q of a media range.
func weight(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		key, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(key), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				return 0
			}
			return q
		}
	}
	return 1
}
