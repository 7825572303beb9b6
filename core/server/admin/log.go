package admin

import (
	"context"
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
	dropped int           // records before these
	more    chan struct{} // closed with the next record; nil: nobody waits for it
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
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
	return len(record), nil
}

// from returns the records that are kept from the given position on, the position
// behind them, and a channel that is closed when there are more.
func (l *Log) from(position int) (records []json.RawMessage, next int, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more == nil {
		l.more = make(chan struct{})
	}
	start := min(max(0, position-l.dropped), len(l.records))
	return slices.Clone(l.records[start:]), l.dropped + len(l.records), l.more
}

// read gives emit the last n records of the level or a worse one, and if follow
// is set every later one until ctx ends or emit fails. A reader that is too slow
// misses records.
func (l *Log) read(ctx context.Context, n int, level slog.Level, follow bool, emit func(json.RawMessage) error) error {
	records, next, more := l.from(0)
	records = reaching(records, level)
	records = records[max(0, len(records)-n):]
	for {
		for _, r := range records {
			if err := emit(r); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-more:
		}
		records, next, more = l.from(next)
		records = reaching(records, level)
	}
}

// reaching keeps the records of the level or a worse one.
func reaching(records []json.RawMessage, level slog.Level) []json.RawMessage {
	return slices.DeleteFunc(records, func(record json.RawMessage) bool {
		var r struct {
			Level slog.Level `json:"level"`
		}
		return json.Unmarshal(record, &r) != nil || r.Level < level
	})
}
