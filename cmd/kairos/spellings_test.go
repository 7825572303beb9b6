package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// spelling is another way to write a request that a caller with a token may make.
type spelling struct {
	name string
	// path and token are how the request writes them; empty: PATH, and "Authorization: Bearer TOKEN".
	path, token string
	method      string // empty: POST
	more        string // a further header
	// replies to a revoked token and a valid one at /mcp, and then at /api/kairos_spaces.
	replies string
}

var spellings = []spelling{
	{name: "as it is", replies: "401 200 401 200"},
	{name: "`PATH/`", path: "PATH/", replies: "401 200 404 404"},
	{name: "`/PATH`", path: "/PATH", replies: "400 400 400 400"},
	{name: "upper case", path: "UPPER", replies: "404 404 404 404"},
	{name: "an escaped letter", path: "ESCAPED", replies: "400 400 400 400"},
	{name: "an escaped slash", path: "PATH%2f", replies: "400 400 400 400"},
	{name: "an escaped null", path: "PATH%00", replies: "400 400 400 400"},
	{name: "`/health/..PATH`", path: "/health/..PATH", replies: "400 400 400 400"},
	{name: "`/.PATH`", path: "/.PATH", replies: "400 400 400 400"},
	{name: "`PATH;x`", path: "PATH;x", replies: "400 400 400 400"},
	{name: "`PATH#x`", path: "PATH#x", replies: "400 400 400 400"},
	{name: `a backslash`, path: `PATH\x`, replies: "400 400 400 400"},
	{name: "`PATH?x`", path: "PATH?x", replies: "401 200 401 200"},
	{name: "`http://localhostPATH`", path: "http://localhostPATH", replies: "401 200 401 200"},
	{name: "`http://evil.examplePATH`", path: "http://evil.examplePATH", replies: "403 403 403 403"},
	{name: "`HEAD`", method: "HEAD", replies: "401 405 405 405"},
	{name: "`OPTIONS`", method: "OPTIONS", replies: "401 405 204 204"},
	{name: "`get`", method: "get", replies: "401 405 405 405"},
	{name: "`GET` with `X-HTTP-Method-Override: POST`", method: "GET", more: "X-HTTP-Method-Override: POST", replies: "401 405 405 405"},
	{name: "`Kairos-Passed-On` of nobody", more: "Kairos-Passed-On: x 203.0.113.7 1 AAAA", replies: "401 200 401 200"},
	{name: "`Origin` of another site", more: "Origin: https://evil.example", replies: "403 403 403 403"},
	{name: "`bearer TOKEN`", token: "authorization: bearer TOKEN", replies: "401 200 401 200"},
	{name: "two spaces before the token", token: "Authorization: Bearer  TOKEN", replies: "401 200 401 200"},
	{name: "a tab before the token", token: "Authorization: Bearer\tTOKEN", replies: "401 401 401 401"},
	{name: "a space before the colon", token: "Authorization : Bearer TOKEN", replies: "400 400 400 400"},
	{name: "two tokens in one header", token: "Authorization: Bearer TOKEN, Bearer TOKEN", replies: "401 401 401 401"},
	{name: "the header twice", token: "Authorization: Bearer TOKEN\r\nAuthorization: Bearer TOKEN", replies: "400 400 400 400"},
	{name: "`Proxy-Authorization`", token: "Proxy-Authorization: Bearer TOKEN", replies: "401 401 401 401"},
	{name: "`?access_token=TOKEN`", path: "PATH?access_token=TOKEN", token: "X: y", replies: "400 400 400 400"},
	{name: "as a cookie", token: "Cookie: kairos=TOKEN; __Host-kairos=TOKEN; Authorization=TOKEN", replies: "401 401 401 401"},
	{name: "a token of 32 KiB", token: "Authorization: Bearer TOKEN" + strings.Repeat("a", 32<<10), replies: "401 401 401 401"},
	{name: "a token of 1 MiB", token: "Authorization: Bearer TOKEN" + strings.Repeat("a", 1<<20), replies: "431 431 431 431"},
}

// TestNoSpellingLetsMoreIn sends each spelling byte by byte, because clients correct it.
func TestNoSpellingLetsMoreIn(t *testing.T) {
	t.Parallel()
	b := withShippedDrivers(t, "auth: {enabled: true}\nhttp: {trusted_proxies: [127.0.0.1/32]}\n") // each request has an address of its own
	_, valid := b.tokenOf("user:acme:ada")
	id, revoked := b.tokenOf("user:acme:ada")
	b.command("", "token", "revoke", id)
	until(t, "the token is revoked", func() bool {
		return b.do("POST", "/api/kairos_spaces", `{}`, with(revoked)).status == http.StatusUnauthorized
	})
	n := 0
	address := func() string {
		n++
		return fmt.Sprintf("X-Forwarded-For: 10.0.%d.%d\r\n", n>>8, n&255)
	}
	for _, s := range spellings {
		var replies []string
		for _, at := range []struct{ path, body, headers string }{
			{"/mcp", listModern, "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"}, {"/api/kairos_spaces", `{}`, ""},
		} {
			for _, token := range []string{revoked, valid} {
				replies = append(replies, strconv.Itoa(b.sendsAs(s, at.path, token, at.headers+address(), at.body)))
			}
			if status := b.sendsAs(s, at.path, "", at.headers+address(), at.body); status/100 == 2 && status != http.StatusNoContent {
				t.Errorf("%s at %s without a token = %d", s.name, at.path, status)
			}
		}
		if got := strings.Join(replies, " "); got != s.replies {
			t.Errorf("%s = %s, want %s", s.name, got, s.replies)
		}
	}
	t.Logf("%d spellings, %d requests", len(spellings), n)
	for _, s := range spellings { // what the manual says is what the plain spelling says, or less
		plain, says := strings.Fields(spellings[0].replies), strings.Fields(s.replies)
		for i := range says {
			if says[i] == "200" && plain[i] != "200" {
				t.Errorf("%s is let in where the plain spelling is not: %s", s.name, s.replies)
			}
		}
	}
}

// sendsAs sends a request as the spelling writes it, and returns the status of the reply.
func (b *program) sendsAs(s spelling, path, token, headers, body string) int {
	b.t.Helper()
	method, target, shown := s.method, s.path, s.token
	if method == "" {
		method = http.MethodPost
	}
	if target == "" {
		target = "PATH"
	}
	if shown == "" {
		shown = "Authorization: Bearer TOKEN"
	}
	target = strings.NewReplacer("PATH", path, "UPPER", strings.ToUpper(path), "ESCAPED", fmt.Sprintf("/%%%x%s", path[1], path[2:]), "TOKEN", token).Replace(target)
	shown = strings.ReplaceAll(shown, "TOKEN", token)
	if s.more != "" {
		shown += "\r\n" + s.more
	}
	host := strings.TrimPrefix(b.url, "http://")
	c, err := new(net.Dialer).DialContext(b.t.Context(), "tcp", host)
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		b.t.Fatal(err)
	}
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n%s\r\n%s",
		method, target, host, shown, len(body), headers, body)
	go func() { _, _ = io.WriteString(c, request) }() // the server may reply before it has read all
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		b.t.Fatalf("%s: %v", s.name, err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// spellingTable is what the manual says of them.
func spellingTable() string {
	var t strings.Builder
	for _, s := range spellings {
		fmt.Fprintf(&t, "| %s | %s |\n", s.name, strings.Join(strings.Fields(s.replies), " | "))
	}
	return t.String()
}
