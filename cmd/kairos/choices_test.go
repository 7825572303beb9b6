package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// choicesDoc asks for a titled choice before its first step, and by the form of a step for
// another one and a list; the next step uses what was filled in.
const choicesDoc = "# %s\n\nNeeds a room.\n\n```json\n{\"inputs\":{\"type\":\"object\",\"required\":[\"room\"],\"properties\":{" +
	"\"room\":{\"type\":\"string\",\"title\":\"Room\",\"oneOf\":[{\"const\":\"r1\",\"title\":\"Large room\"},{\"const\":\"r2\",\"title\":\"Garden\"}]}}}}\n```\n" +
	"\n## Plan\n\nPlan it.\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"name\":\"plan\",\"user_input\":{\"prompt\":\"When, and for whom?\"}," +
	"\"output_schema\":{\"type\":\"object\",\"required\":[\"day\",\"teams\"],\"properties\":{" +
	"\"day\":{\"type\":\"string\",\"oneOf\":[{\"const\":\"mo\",\"title\":\"Monday\"},{\"const\":\"tu\",\"title\":\"Tuesday\"}]}," +
	"\"teams\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"string\",\"oneOf\":[{\"const\":\"t1\",\"title\":\"Sales\"},{\"const\":\"t2\",\"title\":\"Support\"}]}}," +
	"\"until\":{\"type\":\"string\",\"format\":\"date\"}}}}}\n```\n" +
	"\n## Book\n\nBook it.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"book {{ input.room }} {{ steps.plan.day }} {{ steps.plan.teams }}\"}}}\n```\n"

// TestTitledChoicesReachOldClients plays the form with a client that knows neither titles nor
// several choices, and with clients that know both. An empty field that is optional is absent.
func TestTitledChoicesReachOldClients(t *testing.T) {
	t.Parallel()
	b := withShippedDrivers(t, "mcp: {wait: 50s}\n")
	for era, tc := range map[string]struct{ room, day, teams, filled, told string }{
		"2025-06-18": {`"enum":["r1","r2"]`, `"enum":["mo","tu"]`, `"description":"One per line, or separated by commas. Possible: Sales, Support."`,
			`{"day":"tu","teams":"sales, Support","until":""}`, "\n\nRoom: \"r1\" = Large room, \"r2\" = Garden"},
		legacyEra: {`"oneOf":`, `"oneOf":`, `"anyOf":`, `{"day":"tu","teams":["t1","t2"],"until":""}`, ""},
		modernEra: {`"oneOf":`, `"oneOf":`, `"anyOf":`, `{"day":"tu","teams":["t1","t2"],"until":null}`, ""},
	} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := &stage{b.visit(t, era, hasForms), t}
			k := s.call("kairos_begin", fmt.Sprintf(`{"uri":%q}`, s.document(choicesDoc)))
			q := k.ask("elicitation/create")
			if !strings.HasSuffix(q.text(), "room."+tc.told) || !strings.Contains(field(t, q, "room"), tc.room) {
				t.Errorf("the question for the run's input is %s %s", q.text(), q.Params)
			}
			k.answer(q, filled(`{"room":"r2"}`))
			k = s.next(k.step(), "")
			q = k.ask("elicitation/create")
			const said = "When, and for whom?\n- day (one of \"mo\" = Monday, \"tu\" = Tuesday)\n- teams (any of \"t1\" = Sales, \"t2\" = Support)\n- until (string), optional"
			if q.text() != said || !strings.Contains(field(t, q, "day"), tc.day) || !strings.Contains(field(t, q, "teams"), tc.teams) {
				t.Errorf("the question of the step is %s %s", q.text(), q.Params)
			}
			k.answer(q, filled(tc.filled))
			r := k.step()
			if got := string(r.Challenge.Display); len(r.Solved) != 1 || !strings.Contains(got, "book 'r2' 'tu'") || !strings.Contains(got, `["t1","t2"]`) && !strings.Contains(got, `[\"t1\",\"t2\"]`) {
				t.Errorf("the command is %s, solved %v", got, r.Solved)
			}
		})
	}
}

// field is the schema of a field of a form that is asked for.
func field(t *testing.T, q *posed, name string) string {
	t.Helper()
	var p struct {
		RequestedSchema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(q.Params, &p); err != nil {
		t.Fatal(err)
	}
	return string(p.RequestedSchema.Properties[name])
}
