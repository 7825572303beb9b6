package director_test

import (
	"encoding/json"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestASimilarityIsRecorded(t *testing.T) {
	const doc = "# Compare\n\n## Delete the old password\n\nCheck that nobody uses it.\n\n```json\n{\"challenge\":{\"type\":\"comment\"}}\n```\n"
	scene{doc: doc, knobs: []string{"compares comment"}, moves: []move{
		sends(`{"ok":true,"text":"Nobody uses the old password."}`, ""),
		func(p *play) {
			var v driver.SimilarityValue
			for _, e := range p.inOrder(runOf(p.shown)) {
				if e.Answer != nil && e.Answer.InputID == "alike" {
					if err := json.Unmarshal(e.Answer.Value, &v); err != nil {
						p.t.Fatal(err)
					}
				}
			}
			if v.Method != "lexical" || v.Score < 0.1 {
				p.t.Errorf("recorded is a similarity of %.2f by %s, want one by words", v.Score, v.Method)
			}
		},
	}}.play(t)
}
