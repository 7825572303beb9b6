package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
	"github.com/kairos-mcp/kairos/sdk/drivertest/golden"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

var (
	forms = driver.Client{Name: "c", ElicitationForm: true}
	urls  = driver.Client{Name: "c", ElicitationURL: true}
	many  = driver.Client{Name: "c", Era: "2025-11-25", ElicitationForm: true} // knows fields of several choices
	old   = driver.Client{Name: "c", Era: "2025-06-18", ElicitationForm: true}
	both  = driver.Client{Name: "c", ElicitationForm: true, ElicitationURL: true}
	page  = driver.Links{Approval: "https://kairos.example/approve/1"}
	ways  = []string{driver.ByForm, driver.ByPage}
	step  = driver.Step{Protocol: "Appointment", Label: "Confirm the duration", Index: 2, Count: 4}
)

func approval() driver.Input {
	return driver.Input{ID: "approval", Kind: driver.KindApproval, Description: "Create the event?", Person: true, Approval: driver.ApprovalUser,
		Schema: json.RawMessage(`{"type":"object","properties":{"confirmation":{"type":"string","enum":["approved","rejected"],"default":"approved"}},
			"required":["confirmation"],"additionalProperties":false}`)}
}

func confirmation2() driver.Input {
	in := approval()
	in.ID, in.Kind, in.Type = "evidence", driver.KindEvidence, "user_input"
	return in
}

func duration() driver.Input {
	return driver.Input{ID: "evidence", Kind: driver.KindEvidence, Type: "user_input", Description: "How long?", Person: true,
		Schema: json.RawMessage(`{"type":"object","properties":{"room":{"type":"string"},"minutes":{"type":"integer","minimum":5,"default":30}},
			"additionalProperties":false}`)}
}

func participants() driver.Input {
	return driver.Input{ID: "run_input", Kind: driver.KindRunInput, Description: "Who takes part, and on which days?", Person: true,
		Schema: json.RawMessage(`{"type":"object","properties":{
			"people":{"type":"array","description":"Their names","items":{"type":"string","minLength":2},"minItems":1},
			"days":{"type":"array","items":{"type":"string","enum":["Mon","Tue"]}}},"required":["people","days"],"additionalProperties":false}`)}
}

func rooms() driver.Input {
	return driver.Input{ID: "evidence", Kind: driver.KindEvidence, Type: "user_input", Description: "Where, and for whom?", Person: true,
		Schema: json.RawMessage(`{"type":"object","properties":{
			"room":{"type":"string","title":"Room","oneOf":[{"const":"r1","title":"The large <room>"},{"const":"r2","title":"Garden"}],"default":"r2"},
			"floor":{"type":"integer","oneOf":[{"const":0,"title":"Ground floor"},{"const":1}]},
			"plain":{"type":"string","oneOf":[{"const":"a"},{"const":"b","title":"b"}]},
			"teams":{"type":"array","items":{"type":"string","oneOf":[{"const":"t1","title":"Sales"},{"const":"t2","title":"Support"}]}},
			"note":{"type":"string"},
			"when":{"type":"string","format":"date"}},
			"required":["room"]}`)}
}

func with(in driver.Input, change func(*driver.Input)) driver.Input {
	change(&in)
	return in
}

// asked is the way in which the client is asked.
func asked(c driver.Client) string {
	if c.ElicitationURL && !c.ElicitationForm {
		return driver.ByPage
	}
	return driver.ByForm
}

// A client that can do both is asked in the way that counts.
func TestTheWayThatCountsIsTaken(t *testing.T) {
	for want, how := range map[string][]string{driver.ByForm: ways, driver.ByPage: ways[1:]} {
		res, err := definition().Capability.Render(t.Context(), driver.RenderRequest{Input: approval(), Client: both, Links: page, How: how})
		if err != nil || res.ClientRequest == nil || res.How != want || strings.Contains(string(res.ClientRequest.Params), `"mode":"url"`) != (want == driver.ByPage) {
			t.Errorf("Render by %q = %+v, %v, want a question by %s", how, res, err, want)
		}
	}
}

func TestQuestionsAsTheClientSeesThem(t *testing.T) {
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		for name, req := range map[string]driver.RenderRequest{
			"approval":      {Input: approval(), Step: step, Client: both, Links: page, How: ways},
			"approval_url":  {Input: approval(), Step: step, Client: urls, Links: page, How: ways},
			"confirmation":  {Input: confirmation2(), Step: step, Client: forms},
			"form":          {Input: duration(), Step: step, Client: forms},
			"lists":         {Input: participants(), Step: step, Client: many},
			"lists_as_text": {Input: participants(), Step: step, Client: forms},
			"titles":        {Input: rooms(), Step: step, Client: many},
			"titles_old":    {Input: rooms(), Step: step, Client: old},
			"form_repaired": {Input: duration(), Step: step, Client: forms, Diagnostics: []driver.Diagnostic{driver.Problem("/content/minutes", "got string, want integer")}},
		} {
			res, err := d.Capability.Render(t.Context(), req)
			if err != nil || res.ClientRequest == nil || res.ClientRequest.Method != "elicitation/create" {
				t.Fatalf("Render(%s) = %+v, %v, want elicitation/create", name, res, err)
			}
			golden.Compare(t, name, res.ClientRequest.Params)
		}
	})
}

// A client of 2025-06-18 knows no titles: it gets a plain enum, and the person reads in
// the message what the values are called, once.
func TestTitledChoicesReachOldClientsAsNamesInTheMessage(t *testing.T) {
	told := with(rooms(), func(in *driver.Input) {
		in.Description += "\n- room (one of \"r1\" = The large <room>, \"r2\" = Garden)"
	})
	for name, tc := range map[string]struct {
		in         driver.Input
		client     driver.Client
		says, room string
	}{
		"old":         {rooms(), old, "Where, and for whom?\n\nRoom: \"r1\" = The large <room>, \"r2\" = Garden\n\nfloor: 0 = Ground floor, 1", `{"default":"r2","enum":["r1","r2"],"title":"Room","type":"string"}`},
		"unknown":     {rooms(), forms, "Where, and for whom?\n\nRoom: \"r1\" = The large <room>, \"r2\" = Garden\n\nfloor: 0 = Ground floor, 1", `{"default":"r2","enum":["r1","r2"],"title":"Room","type":"string"}`},
		"told before": {told, old, told.Description + "\n\nfloor: 0 = Ground floor, 1", `{"default":"r2","enum":["r1","r2"],"title":"Room","type":"string"}`},
		"new":         {rooms(), many, "Where, and for whom?", `{"type":"string","title":"Room","oneOf":[{"const":"r1","title":"The large <room>"},{"const":"r2","title":"Garden"}],"default":"r2"}`},
	} {
		drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
			res, err := d.Capability.Render(t.Context(), driver.RenderRequest{Input: tc.in, Step: step, Client: tc.client})
			if err != nil || res.ClientRequest == nil {
				t.Fatalf("%s: Render = %+v, %v", name, res, err)
			}
			var asked struct {
				Message         string
				RequestedSchema struct{ Properties map[string]json.RawMessage }
			}
			if err := json.Unmarshal(res.ClientRequest.Params, &asked); err != nil {
				t.Fatal(err)
			}
			var room, want any
			if err := errors.Join(json.Unmarshal(asked.RequestedSchema.Properties["room"], &room), json.Unmarshal([]byte(tc.room), &want)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.says, asked.Message) + cmp.Diff(want, room); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		})
	}
}

func TestWhatNoFormCanAskIsLeftToOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		req  driver.RenderRequest
		says string
	}{
		"no client":     {driver.RenderRequest{Input: approval(), How: ways}, "no elicitation forms"},
		"url, no page":  {driver.RenderRequest{Input: approval(), Client: urls, How: ways}, "no approval page"},
		"only a form":   {driver.RenderRequest{Input: approval(), Client: urls, Links: page, How: ways[:1]}, "no elicitation forms"},
		"only a page":   {driver.RenderRequest{Input: approval(), Client: forms, Links: page, How: ways[1:]}, "does not count"},
		"neither":       {driver.RenderRequest{Input: approval(), Client: both, Links: page}, "does not count"},
		"url, evidence": {driver.RenderRequest{Input: duration(), Client: urls, Links: page}, "no elicitation forms"},
		"secret":        {driver.RenderRequest{Input: with(duration(), func(in *driver.Input) { in.Sensitive = true }), Client: both}, "secrets"},
		"files":         {driver.RenderRequest{Input: with(duration(), func(in *driver.Input) { in.Kind = driver.KindFiles }), Client: both}, "kind files"},
		"nested": {driver.RenderRequest{Input: with(duration(), func(in *driver.Input) {
			in.Schema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"array"}}}`)
		}), Client: both}, "flat"},
		"no schema": {driver.RenderRequest{Input: with(duration(), func(in *driver.Input) { in.Schema = nil }), Client: both}, "flat"},
		"required is odd": {driver.RenderRequest{Input: with(duration(), func(in *driver.Input) {
			in.Schema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":"a"}`)
		}), Client: both}, "flat"},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res, err := d.Capability.Render(t.Context(), tc.req)
				if err != nil || res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, tc.says) {
					t.Errorf("Render = %+v, %v, want unavailable with %q", res, err, tc.says)
				}
			})
		})
	}
}

func TestReplyIsAPersonsWordOrNone(t *testing.T) {
	const answer, declined, dismissed, invalid, missing = "answer", "declined", "dismissed", "invalid", "missing"
	for name, tc := range map[string]struct {
		in        driver.Input
		client    driver.Client
		raw       string
		want, say string
	}{
		"opened the page":   {approval(), urls, `{"action":"accept"}`, missing, "approval page"},
		"a form's answer":   {approval(), urls, `{"action":"accept","content":{"confirmation":"approved"}}`, missing, "approval page"},
		"approved":          {approval(), forms, `{"action":"accept","content":{"confirmation":"approved"},"_meta":{}}`, answer, `{"confirmation":"approved"}`},
		"rejected":          {approval(), forms, `{"action":"accept","content":{"confirmation":"rejected"}}`, declined, "rejected"},
		"rejected evidence": {confirmation2(), forms, `{"action":"accept","content":{"confirmation":"rejected"}}`, answer, `{"confirmation":"rejected"}`},
		"form":              {duration(), forms, `{"action":"accept","content":{"minutes":45,"room":""}}`, answer, `{"minutes":45,"room":""}`},
		"declined":          {approval(), forms, `{"action":"decline"}`, declined, "declined"},
		"cancelled":         {duration(), forms, `{"action":"cancel","content":{"minutes":45,"room":""}}`, dismissed, "closed"},
		"cancelled page":    {approval(), urls, `{"action":"cancel"}`, dismissed, "closed"},
		"declined the page": {approval(), urls, `{"action":"decline"}`, declined, "declined"},
		"yes in own words":  {approval(), forms, `{"action":"accept","content":{"confirmation":"yes"}}`, invalid, "/content/confirmation"},
		"extra key":         {approval(), forms, `{"action":"accept","content":{"confirmation":"approved","all":true}}`, invalid, `unknown key "all"`},
		"missing key":       {duration(), forms, `{"action":"accept","content":{"minutes":45}}`, invalid, `missing "room"`},
		"text number":       {duration(), forms, `{"action":"accept","content":{"minutes":"45","room":""}}`, invalid, "/content/minutes"},
		"lists":             {participants(), many, `{"action":"accept","content":{"people":"Ada, Bob","days":["Tue"]}}`, answer, `{"people":["Ada","Bob"],"days":["Tue"]}`},
		"lists as text":     {participants(), forms, `{"action":"accept","content":{"people":"Ada\nBob","days":"tue"}}`, answer, `{"people":["Ada","Bob"],"days":["Tue"]}`},
		"left empty":        {rooms(), old, `{"action":"accept","content":{"room":"r1","floor":null,"teams":"","note":"","when":""}}`, answer, `{"room":"r1"}`},
		"left empty, new":   {rooms(), many, `{"action":"accept","content":{"room":"r1","teams":[],"when":null}}`, answer, `{"room":"r1"}`},
		"empty, required":   {rooms(), old, `{"action":"accept","content":{"room":""}}`, invalid, "/content/room"},
		"teams by title":    {rooms(), old, `{"action":"accept","content":{"room":"r1","teams":"sales, t2"}}`, answer, `{"room":"r1","teams":["t1","t2"]}`},
		"a title as a room": {rooms(), old, `{"action":"accept","content":{"room":"Garden"}}`, invalid, "/content/room"},
		"a short name":      {participants(), many, `{"action":"accept","content":{"people":"Ada, B","days":[]}}`, invalid, "/content/people/1: has 1 characters"},
		"nobody":            {participants(), many, `{"action":"accept","content":{"people":", ","days":[]}}`, invalid, "/content/people"},
		"another day":       {participants(), forms, `{"action":"accept","content":{"people":"Ada","days":"Mon, Sun"}}`, invalid, "/content/days/1"},
		"no content":        {approval(), forms, `{"action":"accept"}`, invalid, "/content: is missing"},
		"null content":      {approval(), forms, `{"action":"accept","content":null}`, invalid, "/content: is missing"},
		"content text":      {approval(), forms, `{"action":"accept","content":"approved"}`, invalid, "/content"},
		"no action":         {approval(), forms, `{"content":{"confirmation":"approved"}}`, invalid, "/action: is missing"},
		"other action":      {approval(), forms, `{"action":"ACCEPT","content":{"confirmation":"approved"}}`, invalid, "/action: must be"},
		"two actions":       {approval(), forms, `{"action":"decline","action":"accept","content":{"confirmation":"approved"}}`, invalid, "occurs twice"},
		"prose":             {approval(), forms, `approved`, invalid, "not JSON"},
		"nothing":           {approval(), forms, ``, invalid, "empty"},
		"list":              {approval(), forms, `[]`, invalid, "must be an object"},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res, err := d.Capability.Interpret(t.Context(), driver.InterpretRequest{Input: tc.in, Step: step, Client: tc.client, Raw: json.RawMessage(tc.raw), How: asked(tc.client)})
				if err != nil {
					t.Fatal(err)
				}
				var got, say string
				switch {
				case res.Answer != nil:
					got, say = answer, string(res.Answer.Value)
					if res.Answer.Provenance != driver.ClientAttested {
						t.Errorf("provenance = %q, want client-attested", res.Answer.Provenance)
					}
				case res.Declined != nil:
					got, say = declined, res.Declined.Reason
				case res.Invalid != nil:
					got, say = invalid, fields.Text(res.Invalid.Diagnostics)
				case res.Missing != nil:
					got, say = missing, res.Missing.Reason
				case res.Dismissed != nil:
					got, say = dismissed, res.Dismissed.Reason
				}
				if got != tc.want || !strings.Contains(say, tc.say) {
					t.Errorf("Interpret(%s) = %s %q, want %s %q", tc.raw, got, say, tc.want, tc.say)
				}
			})
		})
	}
}

func TestClientErrorsGoToTheNextRoute(t *testing.T) {
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		for _, e := range []driver.ClientError{{Code: -32601, Message: "Method not found"}, {Code: -1, Message: "timeout"}} {
			res, err := d.Capability.Interpret(t.Context(), driver.InterpretRequest{Input: approval(), Client: forms, ClientError: &e,
				Raw: json.RawMessage(`{"action":"accept","content":{"confirmation":"approved"}}`)})
			if err != nil || res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, e.Message) {
				t.Errorf("Interpret(%v) = %+v, %v, want unavailable with the client's words", e, res, err)
			}
		}
	})
}

func TestContract(t *testing.T) {
	reply := func(in driver.Input, raw string) driver.InterpretRequest {
		return driver.InterpretRequest{Input: in, Step: step, Client: forms, Raw: json.RawMessage(raw)}
	}
	drivertest.Run(t, definition(),
		drivertest.Sample{Name: "approval", Request: driver.RenderRequest{Input: approval(), Step: step, Client: both, Links: page, How: ways}, Want: drivertest.ClientRequest},
		drivertest.Sample{Name: "form", Request: driver.RenderRequest{Input: duration(), Step: step, Client: forms}, Want: drivertest.ClientRequest},
		drivertest.Sample{Name: "approved", Request: reply(approval(), `{"action":"accept","content":{"confirmation":"approved"}}`), Want: drivertest.Answer},
		drivertest.Sample{Name: "rejected", Request: reply(approval(), `{"action":"accept","content":{"confirmation":"rejected"}}`), Want: drivertest.Declined},
		drivertest.Sample{Name: "declined", Request: reply(duration(), `{"action":"decline"}`), Want: drivertest.Declined},
		drivertest.Sample{Name: "malformed", Request: reply(duration(), `{"action":"accept","content":[]}`), Want: drivertest.NotAnswer},
	)
}

// Only an accepted form that says "approved" approves.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{`{"action":"accept","content":{"confirmation":"approved"}}`, `{"action":"decline"}`, `{"action":"accept"}`, `null`, `{"action":{}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		res, err := definition().Capability.Interpret(t.Context(), driver.InterpretRequest{Input: approval(), Client: forms, Raw: raw})
		if err != nil {
			t.Fatal(err)
		}
		if res.Answer == nil {
			return
		}
		if found := schema.Validate(json.RawMessage(`{"const":{"confirmation":"approved"}}`), res.Answer.Value); found != nil {
			t.Errorf("Interpret(%s) = %s", raw, res.Answer.Value)
		}
		if !strings.Contains(string(raw), "accept") && !strings.Contains(string(raw), `\`) {
			t.Errorf("Interpret(%s) is an answer without accept", raw)
		}
	})
}

func TestNeverADefaultOnAnApproval(t *testing.T) {
	for name, in := range map[string]driver.Input{"approval": approval(), "confirmation": confirmation2()} {
		res, err := definition().Capability.Render(t.Context(), driver.RenderRequest{Input: in, Client: forms, How: ways})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(res.ClientRequest.Params), `"default"`) {
			t.Errorf("%s has a default: %s", name, res.ClientRequest.Params)
		}
	}
	if diff := cmp.Diff([]string{"human"}, definition().Descriptor.Features); diff != "" {
		t.Error(diff)
	}
}
