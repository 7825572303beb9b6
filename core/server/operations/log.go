package operations

import (
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
)

// keptRecords is how many records of its log a server keeps.
const keptRecords = 1000

// Log keeps the latest records of a server's log: a slog.JSONHandler writes them
// into it. The zero value is empty; it is safe for concurrent use.
type Log struct {
	mu      sync.Mutex // guards the fields below
	records []json.RawMessage
	dropped int // records before these
}

// Write keeps a record. It implements io.Writer for a slog.JSONHandler, which
// writes each record with one call.
func (l *Log) Write(record []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.records) == keptRecords {
		l.records = slices.Delete(l.records, 0, 1)
		l.dropped++
	}
	l.records = append(l.records, slices.Clone(record))
	return len(record), nil
}

// after returns the records behind a position that are kept and of the level or a
// worse one, and the position behind them. A reader that is too slow misses records.
func (l *Log) after(position int, level slog.Level) (records []json.RawMessage, next int) {
	l.mu.Lock()
	start := min(max(0, position-l.dropped), len(l.records))
	records, next = slices.Clone(l.records[start:]), l.dropped+len(l.records)
	l.mu.Unlock()
	return slices.DeleteFunc(records, func(record json.RawMessage) bool {
		var r struct {
			Level slog.Level `json:"level"`
		}
		return json.Unmarshal(record, &r) != nil || r.Level < level
	}), next
}
