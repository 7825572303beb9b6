package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/jsonlimit"
)

// bodied reads the body before anything else is done with the call: one that
// comes slowly holds a connection and its share of memory, and nothing more.
func (a *admission) bodied(next handler) handler {
	return func(c *call) {
		if c.r.ContentLength == 0 || c.route.by == anybody {
			next(c)
			return
		}
		if c.r.ContentLength > a.limits.Body {
			a.tooLarge(c)
			return
		}
		err := a.read(c)
		defer c.free()
		if err != nil {
			a.unread(c, err)
			return
		}
		if err := shape(c.body, c.route.json); err != nil {
			c.refuse(fault.InvalidArgument, "%v", err)
			return
		}
		c.r.Body, c.r.ContentLength = io.NopCloser(bytes.NewReader(c.body)), int64(len(c.body))
		next(c)
	}
}

// smallBody is what there is always room for, in bytes: a few clients with large
// bodies that come slowly must not keep all others out.
const smallBody = 16 << 10

// errNoRoom: too many bytes of bodies are in memory.
var errNoRoom = errors.New("no room for the body")

// read reads the body. Memory for a large one is reserved first: for its
// length, or for the largest body if the client does not tell.
func (a *admission) read(c *call) error {
	length := c.r.ContentLength
	if length > smallBody && !a.reserve(c, length) {
		return errNoRoom
	}
	_ = c.w.control.SetReadDeadline(time.Now().Add(a.limits.BodyTime))
	body := http.MaxBytesReader(c.w.ResponseWriter, c.r.Body, a.limits.Body)
	chunk := make([]byte, 0, max(length+1, 512))
	for {
		if len(chunk) == cap(chunk) {
			chunk = append(chunk, 0)[:len(chunk)]
		}
		n, err := body.Read(chunk[len(chunk):cap(chunk)])
		chunk = chunk[:len(chunk)+n]
		if length < 0 && len(chunk) > smallBody {
			if length = a.limits.Body; !a.reserve(c, length) {
				return errNoRoom
			}
			_ = c.w.control.SetReadDeadline(time.Now().Add(a.limits.BodyTime))
		}
		if errors.Is(err, io.EOF) {
			// The deadline is over: the server keeps reading, to notice a client that leaves.
			_ = c.w.control.SetReadDeadline(time.Time{})
			c.body = chunk
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// reserve takes room for a body until the end of the call, waiting for it for a
// while.
func (a *admission) reserve(c *call, n int64) bool {
	ctx, cancel := context.WithTimeout(c.r.Context(), a.limits.Patience)
	defer cancel()
	give, ok := a.bodies.take(ctx, c.client, n)
	if ok {
		c.give = give
	}
	return ok
}

// free gives back the room of the body.
func (c *call) free() {
	if c.give != nil {
		c.give()
	}
}

// unread answers a call whose body did not come.
func (a *admission) unread(c *call, err error) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		a.tooLarge(c)
	case errors.Is(err, errNoRoom):
		c.later(busyFor)
		a.discard(c)
		c.refuse(fault.Busy, "The server holds as many large bodies as it can; try again in %d s.", seconds(busyFor))
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.close()
		c.refuse(fault.BodyTimeout, "The body did not arrive within %s.", a.limits.BodyTime)
	default:
		c.close()
		c.refuse(fault.InvalidArgument, "The body could not be read.")
	}
}

func (a *admission) tooLarge(c *call) {
	a.discard(c)
	c.refuse(fault.BodyTooLarge, "The body is larger than %d bytes; shorten it.", a.limits.Body)
}

// maxDiscard is how many bodies of the largest size are read and thrown away.
const maxDiscard = 4

// discard reads on, within the time of a body and up to a bound, before the
// connection is closed. Closing it on a client that is still sending would
// reset it, and most clients would never see the reply.
func (a *admission) discard(c *call) {
	c.close()
	if strings.EqualFold(c.r.Header.Get("Expect"), "100-continue") {
		return // such a client reads the reply instead of sending the body
	}
	_ = c.w.control.SetReadDeadline(time.Now().Add(a.limits.BodyTime))
	_, _ = io.CopyN(io.Discard, c.r.Body, maxDiscard*a.limits.Body) // a client that has gone needs no reply
}

// close ends the connection after the reply: what of the body is still to come
// is not read.
func (c *call) close() { c.w.Header().Set("Connection", "close") }

// shape says what of a body would cost too much to decode, or cannot be text.
func shape(b []byte, isJSON bool) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("the body is not UTF-8; the first wrong byte is at %d", firstInvalid(b))
	}
	if !isJSON {
		return nil
	}
	if err := jsonlimit.Check(b); err != nil {
		return fmt.Errorf("the body cannot be read: %w", err)
	}
	return nil
}

func firstInvalid(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}
