package mcp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
)

// BenchmarkFloor is a tool that does nothing, over mcp-go's own stdio server.
func BenchmarkFloor(b *testing.B) {
	s := server.NewMCPServer("floor", "1")
	s.AddTool(mcp.NewTool("noop"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("{}"), nil
	})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- server.NewStdioServer(s).Listen(context.Background(), inR, outW) }()
	roundTrips(b, inW, outR, `{"name":"noop","arguments":{}}`)
	inW.Close()
	if err := <-done; err != nil {
		b.Error(err)
	}
}

// BenchmarkSpaces is the cheapest of our tools.
func BenchmarkSpaces(b *testing.B) {
	in, out := serve(b, config(), newDirector())
	roundTrips(b, in, out, `{"name":"kairos_spaces","arguments":{}}`)
}

// BenchmarkNext is kairos_next with a solution, in both eras.
func BenchmarkNext(b *testing.B) {
	args := `{"uri":"` + stepURI + `","solution":{"type":"shell","nonce":"n","proof_hash":"h","shell":{"exit_code":0}}}`
	for name, meta := range map[string]string{
		"2025-11-25": ``,
		"2026-07-28": `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`,
	} {
		b.Run(name, func(b *testing.B) {
			d := newDirector()
			in, out := serve(b, config(), d)
			roundTrip(b, in, bufio.NewReader(out), 0, `{"name":"kairos_begin","arguments":{"uri":"`+stepURI+`"}}`)
			roundTrips(b, in, out, `{"name":"kairos_next","arguments":`+args+meta+`}`)
		})
	}
}

func roundTrips(b *testing.B, in io.Writer, out io.Reader, params string) {
	b.Helper()
	b.ReportAllocs()
	lines := bufio.NewReaderSize(out, 1<<20)
	i := 0
	for b.Loop() {
		i++
		roundTrip(b, in, lines, i, params)
	}
}

func roundTrip(b *testing.B, in io.Writer, lines *bufio.Reader, id int, params string) {
	b.Helper()
	if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`+"\n", id, params); err != nil {
		b.Fatal(err)
	}
	if _, err := lines.ReadSlice('\n'); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkHTTP is the cheapest of our tools and kairos_next, through the
// handler and without a network.
func BenchmarkHTTP(b *testing.B) {
	solution := `{"type":"shell","nonce":"n","proof_hash":"h","shell":{"exit_code":0}}`
	for tool, args := range map[string]string{
		"kairos_spaces": `{}`,
		"kairos_next":   `{"uri":"` + stepURI + `","solution":` + solution + `}`,
	} {
		for era, meta := range map[string]string{
			"2025-11-25": ``,
			"2026-07-28": `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
				`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`,
		} {
			b.Run(tool+"/"+era, func(b *testing.B) {
				s, err := mcpserver.New(config(), newDirector(), testLog(b))
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				post(b, s, "", era, "", `{"name":"kairos_begin","arguments":{"uri":"`+stepURI+`"}}`)
				session := openSession(b, s)
				if meta != "" {
					session = ""
				}
				params := `{"name":"` + tool + `","arguments":` + args + meta + `}`
				b.ReportAllocs()
				for b.Loop() {
					post(b, s, session, era, tool, params)
				}
			})
		}
	}
}

func post(b testing.TB, s *mcpserver.Server, session, era, tool, params string) {
	b.Helper()
	r := httptest.NewRequest(http.MethodPost, "/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`))
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	if tool != "" {
		r.Header.Set("Mcp-Protocol-Version", era)
		r.Header.Set("Mcp-Method", "tools/call")
		r.Header.Set("Mcp-Name", tool)
	}
	w := httptest.NewRecorder()
	s.HTTP().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		b.Fatalf("%s = %d %s", tool, w.Code, w.Body)
	}
}

func openSession(b testing.TB, s *mcpserver.Server) string {
	b.Helper()
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":`+
		`{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"old","version":"1"}}}`))
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.HTTP().ServeHTTP(w, r)
	return w.Header().Get("Mcp-Session-Id")
}

// BenchmarkIdleSessions tells what 10,000 sessions hold that have called a tool
// each and are idle now.
func BenchmarkIdleSessions(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		s, err := mcpserver.New(config(), newDirector(), testLog(b))
		if err != nil {
			b.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		goroutines := runtime.NumGoroutine()
		for range n {
			post(b, s, openSession(b, s), "2025-11-25", "kairos_spaces", `{"name":"kairos_spaces","arguments":{}}`)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/session")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
