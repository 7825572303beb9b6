package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Of what a client says about itself, a session keeps a bounded copy, and what is far too
// long is refused before it is decoded.
func TestHandshakesDoNotFillTheMemory(t *testing.T) {
	for name, tc := range map[string]struct {
		calls, length, status int
	}{
		"refused": {40, 15 << 20, 400},
		"kept":    {4000, 60 << 10, 200},
	} {
		t.Run(name, func(t *testing.T) {
			b := startProgram(t, "http: {rate: {per_minute: -1}}\n")
			text := strings.Repeat("x", tc.length)
			legacy := fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},`+
				`"clientInfo":{"name":"%s","version":"1"}}}`, text)
			modern := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
				`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"%s","version":"1"}}}}`, text)
			before := b.memory()
			var all sync.WaitGroup
			for worker := range 2 {
				all.Go(func() {
					for i := range tc.calls / 2 {
						message, headers := legacy, map[string]string(nil)
						if tc.status == 400 && i%8 == worker {
							message, headers = modern, map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
						}
						if a, err := b.try("POST", "/mcp", message, headers); err != nil || a.status != tc.status {
							t.Errorf("handshake = %d %.200s %v, want %d", a.status, a.body, err, tc.status)
							return
						}
					}
				})
			}
			all.Wait()
			grown := b.memory() - before
			t.Logf("%d handshakes with a name of %d KiB: %d MiB more", tc.calls, tc.length>>10, grown)
			if grown > 160 {
				t.Errorf("%d handshakes took %d MiB", tc.calls, grown)
			}
			if a := b.do("POST", "/mcp", greeting, nil); !json.Valid([]byte(a.body)) || a.status != 200 {
				t.Errorf("initialize after them = %d %s", a.status, a.body)
			}
		})
	}
}
