package mcpserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
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
