package setup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

// Difference tells whether a part of a setup has changed.
type Difference string

// The differences.
const (
	Same    Difference = "same"
	Changed Difference = "changed"
)

// Report describes what a reload or a rollback did.
type Report struct {
	At   time.Time    `json:"at"`
	Took Milliseconds `json:"took_ms"`
	// Changes has an entry for every driver, by name.
	Changes  []driverhost.Change `json:"changes"`
	Tree     Difference          `json:"tree"`
	Rules    Difference          `json:"rules"`
	Settings Difference          `json:"settings"`
	// NeedsRestart lists changed keys that only a restart applies.
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

// Changed reports whether anything has changed, including restarted processes.
func (r Report) Changed() bool { return r.differs() || r.count("restarted") > 0 }

// differs reports whether there is anything to roll back.
func (r Report) differs() bool {
	return r.Tree == Changed || r.Rules == Changed || r.Settings == Changed || r.count("kept")+r.count("restarted") < len(r.Changes)
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

// summary lists the drivers that were not kept, for the log.
func (r Report) summary() []string {
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
	r := Report{Changes: s.set.Changes(next.set), Tree: Same, Rules: Same, Settings: Same}
	if s.desired.Tree.Name != next.desired.Tree.Name || !bytes.Equal(s.desired.Tree.YAML, next.desired.Tree.YAML) {
		r.Tree = Changed
	}
	if s.rules.Digest() != next.rules.Digest() {
		r.Rules = Changed
	}
	if s.desired.Settings != next.desired.Settings || !slices.Equal(s.desired.How, next.desired.How) {
		r.Settings = Changed
	}
	return r
}
