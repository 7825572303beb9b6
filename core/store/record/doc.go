// Package record is the form in which the SQL stores keep protocols and runs: rows,
// cursors, caches and the checks before a row is written. It knows no database.
package record

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
)

// VersionsKept is how many versions of a chain can be read, the newest ones.
const VersionsKept = 100

// Nanos is a time as it is stored: nanoseconds since 1970 UTC, or 0 if there is none.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// TimeOf is the time that Nanos stored.
func TimeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}

// Place is the end of a page of a list of protocols.
type Place struct{ Title, ID string }

// Cursor encodes the place. Ids have no line feeds.
func (p Place) Cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.ID + "\n" + p.Title))
}

// ParseCursor reads what Cursor returned; "": the start.
func ParseCursor(cursor string) (Place, error) {
	if cursor == "" {
		return Place{}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	id, title, ok := strings.Cut(string(text), "\n")
	if err != nil || !ok {
		return Place{}, fault.New(fault.InvalidArgument, "the cursor is not one of this list; start without one")
	}
	return Place{Title: title, ID: id}, nil
}
