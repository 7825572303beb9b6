package toolset

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Traced puts the trace of a call into its context: the client's traceparent, else the
// trace that is there, else a new one. The log lines of server and drivers about one
// call share it.
func Traced(ctx context.Context, theirs string) context.Context {
	if ctx = driver.WithTrace(ctx, theirs); driver.TraceOf(ctx) != "" {
		return ctx
	}
	var id [24]byte
	_, _ = rand.Read(id[:]) // never fails
	return driver.WithTrace(ctx, fmt.Sprintf("00-%x-%x-00", id[:16], id[16:]))
}

// Clipped returns a copy of the first bytes of what a client says about itself: a part
// of the text would keep all of it in memory.
func Clipped(text string, most int) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), most)], ""))
}
