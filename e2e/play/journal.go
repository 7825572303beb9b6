package play

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// line is an entry of a ledger in its journal. The last line of a run counts.
type line struct {
	Run, Who            string
	Acked               map[int]string
	Seen                map[string]int
	Ended, Sure, Unsure bool
	Replies             int
}

// written counts a reply, and writes the entry to the journal if there is one. The
// caller holds the lock. What was written is there when the process is killed: the
// kernel has it.
func (e *Entry) written() {
	e.l.replies++
	if e.l.journal == nil {
		return
	}
	b, err := json.Marshal(line{e.id, e.who, e.acked, e.seen, e.ended, e.sure, e.notSure, e.l.replies})
	if err == nil {
		_, err = e.l.journal.Write(append(b, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the ledger cannot be written:", err)
		os.Exit(1) // nothing may be acknowledged without it
	}
}

// openJournal opens the journal of a player to continue it. A line that was cut short
// goes: its reply was not acknowledged.
func openJournal(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the test's own file
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return f, f.Truncate(int64(bytes.LastIndexByte(text, '\n') + 1))
}

// Merge adds what a player in a process of its own has written to its journal.
func (l *Ledger) Merge(journal string) error {
	text, err := os.ReadFile(journal)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	replies := 0
	for text := range strings.Lines(string(text)) {
		var n line
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			return fmt.Errorf("read %s: %w", journal, err)
		}
		l.runs[n.Run] = &Entry{l: l, id: n.Run, who: n.Who, acked: n.Acked, seen: n.Seen, ended: n.Ended, sure: n.Sure, notSure: n.Unsure}
		replies = max(replies, n.Replies)
	}
	l.replies += replies
	return nil
}
