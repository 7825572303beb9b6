package setup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

// Difference says whether a part of a setup is another one than before.
type Difference string

// The differences.
const (
	Same    Difference = "same"
	Changed Difference = "changed"
)

// Report is what a reload or a rollback did.
type Report struct {
	At   time.Time    `json:"at"`
	Took Milliseconds `json:"took_ms"`
	// Changes has an entry for every driver, by name.
	Changes  []driverhost.Change `json:"changes"`
	Tree     Difference          `json:"tree"`
	Settings Difference          `json:"settings"`
	// NeedsRestart lists keys that are set to something else than what the
	// server runs with, and that only a restart applies.
	NeedsRestart []string `json:"needs_restart,omitempty"`
	Warnings     []string `json:"warnings,omitempty"`
}

// Milliseconds is a duration whose JSON is a number of milliseconds.
type Milliseconds time.Duration

// MarshalJSON implements json.Marshaler.
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(m).Microseconds()) / 1000)
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Milliseconds) UnmarshalJSON(b []byte) error {
	var ms float64
	if err := json.Unmarshal(b, &ms); err != nil {
		return fmt.Errorf("milliseconds: %w", err)
	}
	*m = Milliseconds(ms * float64(time.Millisecond))
	return nil
}

// Changed reports whether anything is different, a fresh process included.
func (r Report) Changed() bool { return r.differs() || r.count("restarted") > 0 }

// differs reports whether there is anything to go back from.
func (r Report) differs() bool {
	return r.Tree == Changed || r.Settings == Changed || r.count("kept")+r.count("restarted") < len(r.Changes)
}

func (r Report) count(kind string) int {
	n := 0
	for _, c := range r.Changes {
		if c.Kind == kind {
			n++
		}
	}
	return n
}

// words names the drivers that are not simply kept, for the log.
func (r Report) words() []string {
	var out []string
	for _, c := range r.Changes {
		if c.Kind != "kept" {
			out = append(out, c.Driver+" "+c.Kind)
		}
	}
	return out
}

// changes compares two snapshots.
func (s *snapshot) changes(next *snapshot) Report {
	r := Report{Changes: s.set.Changes(next.set), Tree: Same, Settings: Same}
	if s.wanted.Tree.Name != next.wanted.Tree.Name || !bytes.Equal(s.wanted.Tree.YAML, next.wanted.Tree.YAML) {
		r.Tree = Changed
	}
	if s.wanted.Settings != next.wanted.Settings {
		r.Settings = Changed
	}
	return r
}
