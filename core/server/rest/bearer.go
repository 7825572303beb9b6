package rest

import (
	"context"
	"net/http"
	"strings"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
)

// Verifier says whose a bearer token is. The error of a token that does not count has the code
// fault.InvalidToken. It is called concurrently, and again and again while a call lasts.
type Verifier interface {
	Caller(ctx context.Context, token string) (access.Caller, error)
}

// maxToken limits a token in bytes, before anything looks at it. JSON web tokens are the longest.
const maxToken = 16 << 10

// inQueries are the names by which clients put tokens into queries, which end up in logs.
var inQueries = []string{"access_token", "token", "bearer_token"}

// Bearer identifies callers by the token in the Authorization header of a request (RFC 6750).
// One in the query, or a second one, is refused.
func Bearer(v Verifier) func(*http.Request) (access.Caller, error) {
	return func(r *http.Request) (access.Caller, error) {
		token, err := bearerToken(r)
		if err != nil {
			return access.Caller{}, err
		}
		return v.Caller(r.Context(), token)
	}
}

func bearerToken(r *http.Request) (string, error) {
	if r.URL.RawQuery != "" {
		query := r.URL.Query()
		for _, name := range inQueries {
			if query.Has(name) {
				return "", fault.New(fault.InvalidArgument, "Send the token in the header Authorization: Bearer, and not as %s in the query. Logs may have it now: revoke it.", name)
			}
		}
	}
	sent := r.Header.Values("Authorization")
	if len(sent) > 1 {
		return "", fault.New(fault.InvalidArgument, "Send one Authorization header: %d came.", len(sent))
	}
	if len(sent) == 0 || sent[0] == "" {
		return "", fault.New(fault.Unauthorized, "This server needs a token: send it in the header Authorization: Bearer.")
	}
	scheme, token, _ := strings.Cut(sent[0], " ")
	token = strings.TrimLeft(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", fault.New(fault.Unauthorized, "This server needs a token in the header Authorization: Bearer, and knows no other scheme.")
	case token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' || c == ',' }):
		return "", fault.New(fault.InvalidToken, "the Authorization header has no token that can be read")
	}
	return token, nil
}
