package play

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// Watch waits until the server is at a point that no client sees, and says so. It
// returns when ctx ends, and at once at any other point.
func (s *Server) Watch(ctx context.Context, p *Points, point string) {
	var read func() string
	switch point {
	case PointActs:
		read = func() string { return size(s.Path("counted")) }
	case PointCommit:
		read = func() string { return changed(s.Path("data/kairos.db-wal")) }
	case PointAsksWork:
		read = s.judge(ctx, "syscr")
	case PointVerdict:
		read = s.judge(ctx, "syscw")
	default:
		return
	}
	for before := read(); ctx.Err() == nil; time.Sleep(200 * time.Microsecond) { // polling: nothing tells of it
		if read() != before {
			p.At(point)
			return
		}
	}
}

func size(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "0" // there is none yet
	}
	return fmt.Sprint(info.Size())
}

func changed(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return info.ModTime().String()
}

// judging is the driver of step 2 of the protocol, which only judges.
const judging = "comment"

// judge returns how often the driver that judges has read or written so far, once it
// has started.
func (s *Server) judge(ctx context.Context, counter string) func() string {
	pid := 0
	for ; pid == 0 && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		for _, d := range s.Drivers() {
			if d.Name == judging {
				pid = d.PID
			}
		}
	}
	return func() string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
		if err != nil {
			return "" // it has ended
		}
		for line := range strings.Lines(string(text)) {
			if n, ok := strings.CutPrefix(line, counter+": "); ok {
				return n
			}
		}
		return ""
	}
}

// watched is the client's side of HTTP: it says when the first bytes of a reply come.
type watched struct {
	http.RoundTripper
	points *Points
}

func (w watched) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := w.RoundTripper.RoundTrip(req)
	if err == nil && req.Method == http.MethodPost {
		res.Body = &firstBytes{ReadCloser: res.Body, points: w.points}
	}
	return res, err
}

type firstBytes struct {
	io.ReadCloser
	points *Points
	seen   bool
}

func (f *firstBytes) Read(b []byte) (int, error) {
	n, err := f.ReadCloser.Read(b)
	if n > 0 && !f.seen {
		f.seen = true
		f.points.At(PointReply)
	}
	return n, err
}
