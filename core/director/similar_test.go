package director_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// compared is the similarity that is recorded for a text about a step.
func (w *world) compared(text string) driver.SimilarityValue {
	w.t.Helper()
	w.drivers.set("compares comment", true)
	uris := w.mint("# Compare\n\n## Delete the old password\n\nCheck that nobody uses it.\n\n```json\n{\"challenge\":{\"type\":\"comment\"}}\n```\n")
	first := w.begin(uris[0])
	w.next(uris[0], solve(first, fmt.Sprintf(`{"ok":true,"text":%q}`, text)))
	events, err := w.store.Events(context.Background(), runOf(first))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		if e.Answer == nil || e.Answer.InputID != "alike" {
			continue
		}
		var v driver.SimilarityValue
		if err := json.Unmarshal(e.Answer.Value, &v); err != nil {
			w.t.Fatal(err)
		}
		return v
	}
	w.t.Fatal("no similarity is recorded")
	return driver.SimilarityValue{}
}

func TestASimilarityIsRecorded(t *testing.T) {
	if v := newWorld(t, nil).compared("Nobody uses the old password."); v.Method != "lexical" || v.Score < 0.1 {
		t.Errorf("recorded is a similarity of %.2f by %s, want one by words", v.Score, v.Method)
	}
}
