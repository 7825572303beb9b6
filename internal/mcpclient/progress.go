package mcpclient

import (
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

// Progress is how far a server says that a call has come. Its numbers are all that
// is taken: the words of a notification are those of a stranger.
type Progress struct {
	Done, Total float64 // Total is 0 if the server does not know it
}

// Share is how much is done, 0 to 1. It is false if nobody knows.
func (p Progress) Share() (float64, bool) {
	if p.Total <= 0 {
		return 0, false
	}
	return min(1, p.Done/p.Total), true
}

// String is such as "3 of 10".
func (p Progress) String() string {
	done := strconv.FormatFloat(p.Done, 'g', 6, 64)
	if p.Total <= 0 {
		return done
	}
	return done + " of " + strconv.FormatFloat(p.Total, 'g', 6, 64)
}

// watchers hear of the progress of calls, by the token of the call.
type watchers struct {
	mu   sync.Mutex // guards the fields below
	last int
	by   map[string]func(Progress)
}

// watch returns a token for a call, until release.
func (w *watchers) watch(tell func(Progress)) (token string, release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	token = fmt.Sprintf("call-%d", w.last)
	if w.by == nil {
		w.by = map[string]func(Progress){}
	}
	w.by[token] = tell
	return token, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.by, token)
	}
}

// notified passes the progress on that a server sent for a call that is watched.
func (w *watchers) notified(n mcp.JSONRPCNotification) {
	if n.Method != string(mcp.MethodNotificationProgress) {
		return
	}
	fields := n.Params.AdditionalFields
	token, _ := fields["progressToken"].(string)
	done, ok := fields["progress"].(float64)
	total, _ := fields["total"].(float64)
	w.mu.Lock()
	tell := w.by[token]
	w.mu.Unlock()
	if tell != nil && ok && sound(done) && sound(total) {
		tell(Progress{done, total})
	}
}

func sound(n float64) bool { return n >= 0 && !math.IsInf(n, 0) }
