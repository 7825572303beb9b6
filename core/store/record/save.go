package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

// MaxRevision is the last revision of a run that can be stored.
const MaxRevision = 1<<20 - 1

// RunRow is a save in the form of its tables.
type RunRow struct {
	Run  run.Run // at its new revision
	Head string  // JSON of the run
	Save []byte  // what happened
	Keys []string
}

// EncodeRun returns the row of a save. Keys are those of the recorded replies, and what
// happened gets the form.
func EncodeRun(save runs.Save, form Form) (row RunRow, err error) {
	row.Run = save.Run
	row.Run.Revision++
	if row.Run.Revision > MaxRevision {
		return row, fmt.Errorf("save run %s: it was saved %d times, which is the most that a run can be", row.Run.ID, MaxRevision)
	}
	if row.Head, err = JSON(row.Run); err != nil {
		return row, fmt.Errorf("encode run %s: %w", row.Run.ID, err)
	}
	happened := SaveOf(save)
	row.Keys = happened.Keys()
	document, err := happened.JSON()
	if err != nil {
		return row, fmt.Errorf("encode what happened in run %s: %w", row.Run.ID, err)
	}
	row.Save = form(document)
	return row, nil
}

// EncodeNew is EncodeRun for a run that is not stored yet.
func EncodeNew(save runs.Save, form Form) (RunRow, error) {
	if r := save.Run; r.ID == "" || r.Pin == "" || r.Revision != 0 {
		return RunRow{}, fmt.Errorf("create run %q: a new run has an id, a pin and revision 0, this one has pin %q, revision %d",
			r.ID, r.Pin, r.Revision)
	}
	return EncodeRun(save, form)
}

// Save is the JSON of what one save added to a run.
type Save struct {
	Events   []run.Event `json:"events,omitempty"`
	Recorded []Recorded  `json:"recorded,omitempty"`
}

// Recorded is a recorded reply.
type Recorded struct {
	Key     string          `json:"key"`
	Payload string          `json:"payload"`
	Reply   json.RawMessage `json:"reply"`
}

// SaveOf returns what a save adds.
func SaveOf(save runs.Save) Save {
	s := Save{Events: save.Events}
	for _, reply := range save.Recorded {
		s.Recorded = append(s.Recorded, Recorded(reply))
	}
	return s
}

// JSON is the document of the save. The replies, which are most of it, are JSON already
// and copied as they are.
func (s Save) JSON() ([]byte, error) {
	events, err := JSON(Save{Events: s.Events})
	if err != nil || len(s.Recorded) == 0 {
		return []byte(events), err
	}
	size := len(events)
	for _, r := range s.Recorded {
		size += len(r.Key) + len(r.Payload) + len(r.Reply) + len(`,{"key":"","payload":"","reply":}`)
	}
	out := append(make([]byte, 0, size+len(`"recorded":[]`)), strings.TrimSuffix(events, "}\n")...)
	if len(s.Events) > 0 {
		out = append(out, ',')
	}
	out = append(out, `"recorded":[`...)
	for i, r := range s.Recorded {
		head, err := json.Marshal(struct {
			Key     string `json:"key"`
			Payload string `json:"payload"`
		}{r.Key, r.Payload})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, head[:len(head)-1]...), `,"reply":`...)
		if !json.Valid(r.Reply) {
			return nil, fmt.Errorf("the reply recorded under %s is not JSON", r.Key)
		}
		out = append(append(out, r.Reply...), '}')
	}
	return append(out, "]}"...), nil
}

// Keys are those of the recorded replies.
func (s Save) Keys() []string {
	keys := make([]string, len(s.Recorded))
	for i, reply := range s.Recorded {
		keys[i] = reply.Key
	}
	return keys
}

// Reply returns the last reply with the key.
func (s Save) Reply(key string) (runs.Recorded, bool) {
	for _, reply := range slices.Backward(s.Recorded) {
		if reply.Key == key {
			return runs.Recorded(reply), true
		}
	}
	return runs.Recorded{}, false
}

// Erase replaces the events by what erase returns, and drops the recorded replies.
func (s *Save) Erase(erase func(run.Event) run.Event) {
	for i := range s.Events {
		s.Events[i] = erase(s.Events[i])
	}
	s.Recorded = nil
}
