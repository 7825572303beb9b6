package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
	"github.com/kairos-mcp/kairos/sdk/drivertest/golden"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

const (
	confirm  = `{"type":"user_input","user_input":{"prompt":"Deploy to production?"}}`
	duration = `{"type":"user_input","user_input":{"prompt":"How long? 30 minutes are usual."},
		"output_schema":{"type":"object","properties":{"minutes":{"type":"integer","minimum":5,"title":"Minutes"}}}}`
	trip = `{"type":"user_input","user_input":{"prompt":"Where to?"},"output_schema":{"type":"object",
		"properties":{"city":{"type":"string","enum":["Oslo","Bern"]},"when":{"type":"string","format":"date","description":"first day"}},"required":["city"]}}`
	verdict = `{"type":"user_input","output_schema":{"type":"object","properties":{"verdict":{"type":"string","enum":["accepted","rejected"]}}}}`
	note    = `{"type":"user_input","output_schema":{"type":"object","properties":{"note":{"type":"string"}}}}`
	meeting = `{"type":"user_input","user_input":{"prompt":"Which days?"},"output_schema":{"type":"object","properties":{
		"room":{"type":"string","oneOf":[{"const":"r1","title":"Large room"},{"const":"r2"}]},
		"days":{"type":"array","minItems":1,"uniqueItems":true,"items":{"type":"string","enum":["Mon","Tue"]}},
		"people":{"type":"array","items":{"type":"string"}},
		"teams":{"type":"array","items":{"anyOf":[{"const":"t1","title":"Sales"},{"const":"t2","title":"Support"}]}},
		"when":{"type":"string","format":"date"}, "note":{"type":"string"}},"required":["days"]}}`
	days = `{"type":"user_input","output_schema":{"type":"object","properties":{"days":{"type":"array","items":{"type":"string","enum":["Mon","rejected"]}}}}}`
	open = `{"type":"user_input","output_schema":{"type":"object","properties":{"open":{"type":"boolean"}}}}`
	gate = `{"type":"user_input","approval_mode":"user","user_input":{"prompt":"Deploy to production?"}}`
	own  = `{"type":"user_input","output_schema":{"type":"object","properties":{"confirmation":{"type":"string","enum":["yes","no"]}}}}`
)

const (
	agent  = driver.AgentReported
	model  = driver.ModelGenerated
	person = driver.ClientAttested
)

func advance(t testing.TB, d driver.Challenge, challenge string, answers ...driver.Answer) driver.AdvanceResult {
	t.Helper()
	res, err := d.Advance(t.Context(), driver.AdvanceRequest{Challenge: json.RawMessage(challenge), Answers: answers})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func evidence(value string, p driver.Provenance) driver.Answer {
	return driver.Answer{InputID: "evidence", Value: json.RawMessage(value), Provenance: p}
}

func TestWithoutAnswerThePersonIsAsked(t *testing.T) {
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		golden.Compare(t, "need", advance(t, d.Challenge, confirm).NeedInput)
		golden.Compare(t, "need_form", advance(t, d.Challenge, trip).NeedInput)
		golden.Compare(t, "need_lists", advance(t, d.Challenge, meeting).NeedInput)
		golden.Compare(t, "need_default", advance(t, d.Challenge, `{"type":"user_input"}`).NeedInput)
	})
}

func TestAnswerIsJudgedByWhoGaveIt(t *testing.T) {
	const accepted, declined = "accepted", "declined"
	for name, tc := range map[string]struct {
		challenge, value string
		by               driver.Provenance
		outcome, says    string // accepted: says is the output; else code and part of the message
	}{
		"approved by person": {confirm, `{"confirmation":"approved"}`, person, accepted, `{"confirmation":"approved"}`},
		"rejected by person": {confirm, `{"confirmation":"rejected"}`, person, declined, "rejected"},
		"approved by model":  {confirm, `{"confirmation":"approved"}`, model, accepted, `{"confirmation":"approved"}`},
		"yes by model":       {confirm, `{"confirmation":"yes"}`, model, "MISSING_FIELD", "/confirmation"},
		"cased by model":     {confirm, `{"confirmation":"Approved"}`, model, "MISSING_FIELD", "/confirmation"},
		"more by model":      {confirm, `{"confirmation":"approved","note":"x"}`, model, "MISSING_FIELD", `unknown key "note"`},
		"less by model":      {confirm, `{}`, model, "MISSING_FIELD", `missing "confirmation"`},
		"prose by model":     {confirm, `Yes {"confirmation":"approved"}`, model, "MISSING_FIELD", "not JSON"},
		"twice by model":     {confirm, `{"confirmation":"rejected","confirmation":"approved"}`, model, "MISSING_FIELD", "occurs twice"},
		"any by agent":       {confirm, `{"confirmation":"go ahead","timestamp":"2026-01-01T00:00:00Z"}`, agent, accepted, `{"confirmation":"go ahead"}`},
		"rejected by agent":  {confirm, `{"confirmation":" Rejected "}`, agent, declined, "rejected"},
		"empty by agent":     {confirm, `{"confirmation":""}`, agent, "MISSING_FIELD", "Deploy to production?"},
		"blank by agent":     {confirm, `{"confirmation":" \n"}`, agent, "MISSING_FIELD", "Do not infer"},
		"none by agent":      {confirm, `{}`, agent, "MISSING_FIELD", "/user_input/confirmation: is missing"},
		"true by agent":      {confirm, `{"confirmation":true}`, agent, "MISSING_FIELD", "must be a string"},
		"text by agent":      {confirm, `"approved"`, agent, "MISSING_FIELD", "must be an object"},

		"NUL by agent":            {confirm, `{"confirmation":"\u0000"}`, agent, "MISSING_FIELD", "can be seen"},
		"rejected. by agent":      {confirm, `{"confirmation":"rejected."}`, agent, declined, "rejected"},
		"\"rejected\" by agent":   {confirm, `{"confirmation":"\"rejected\""}`, agent, declined, "rejected"},
		"full-width by agent":     {confirm, `{"confirmation":"ｒｅｊｅｃｔｅｄ!"}`, agent, declined, "rejected"},
		"Cyrillic by agent":       {confirm, `{"confirmation":"r\u0435j\u0435cted"}`, agent, declined, "rejected"},
		"hidden inside by agent":  {confirm, `{"confirmation":"re\u200bjected"}`, agent, declined, "rejected"},
		"no to a question":        {confirm, `{"confirmation":"No"}`, agent, accepted, `{"confirmation":"No"}`},
		"no to an approval":       {gate, `{"confirmation":"No"}`, agent, "MISSING_FIELD", `"approved" or "rejected"`},
		"nein to an approval":     {gate, `{"confirmation":" nein! "}`, agent, "MISSING_FIELD", `"nein!"`},
		"cancel to an approval":   {gate, `{"confirmation":"c\u0430ncel"}`, agent, "MISSING_FIELD", "Do not infer"},
		"нет to an approval":      {gate, `{"confirmation":"Нет"}`, agent, "MISSING_FIELD", `"approved" or "rejected"`},
		"more than no":            {gate, `{"confirmation":"no objections, go ahead"}`, agent, accepted, `{"confirmation":"no objections, go ahead"}`},
		"rejected to an approval": {gate, `{"confirmation":"rejected"}`, agent, declined, "rejected"},
		"unseen in a form":        {note, `{"note":"\u3164"}`, agent, "MISSING_FIELD", `"note"`},
		"unseen by person":        {note, `{"note":"\u00ad"}`, person, "MISSING_FIELD", `"note"`},
		"unseen as plain text":    {note, `{"confirmation":"\u2800"}`, agent, "MISSING_FIELD", "no value of the form"},
		"form rejected, quoted":   {duration, `{"confirmation":"“Rejected.”"}`, agent, declined, "rejected"},
		"empty text in a form":    {note, `{"note":""}`, person, accepted, `{"note":""}`},

		"form by person":        {duration, `{"minutes":45}`, person, accepted, `{"minutes":45}`},
		"form too small":        {duration, `{"minutes":1}`, person, "MISSING_FIELD", "/minutes: must be at least 5"},
		"form as text":          {duration, `{"minutes":"45"}`, person, "MISSING_FIELD", "/minutes: got string"},
		"form, more, model":     {duration, `{"minutes":45,"why":"x"}`, model, "MISSING_FIELD", `unknown key "why"`},
		"form, less, model":     {duration, `{}`, model, "MISSING_FIELD", `missing "minutes"`},
		"form, plain, model":    {duration, `{"confirmation":"30"}`, model, "MISSING_FIELD", `missing "minutes"`},
		"form by agent":         {duration, `{"minutes":45}`, agent, accepted, `{"minutes":45}`},
		"form, more, agent":     {duration, `{"minutes":45,"why":"x"}`, agent, accepted, `{"minutes":45,"why":"x"}`},
		"form in text":          {duration, `{"confirmation":"{\"minutes\":45}"}`, agent, accepted, `{"minutes":45}`},
		"plain number":          {duration, `{"confirmation":" 30 "}`, agent, accepted, `{"minutes":30}`},
		"plain prose":           {duration, `{"confirmation":"half an hour"}`, agent, "MISSING_FIELD", "How long?"},
		"plain fraction":        {duration, `{"confirmation":"30.5"}`, agent, "MISSING_FIELD", "/minutes"},
		"plain empty":           {duration, `{"confirmation":""}`, agent, "MISSING_FIELD", "no value of the form (minutes)"},
		"plain hostile":         {duration, `{"confirmation":"1e999999999"}`, agent, "MISSING_FIELD", "minutes"},
		"form rejected":         {duration, `{"confirmation":"REJECTED"}`, agent, declined, "rejected"},
		"form optional left":    {trip, `{"city":"Oslo"}`, person, accepted, `{"city":"Oslo"}`},
		"form date":             {trip, `{"city":"Oslo","when":"2026-02-30"}`, person, "MISSING_FIELD", "/when"},
		"two fields plain":      {trip, `{"confirmation":"Oslo"}`, agent, "MISSING_FIELD", "no value of the form (city, when)"},
		"form, none, agent":     {trip, `{}`, agent, "MISSING_FIELD", "no value of the form"},
		"form, less, agent":     {trip, `{"when":"2026-02-01"}`, agent, "MISSING_FIELD", `missing "city"`},
		"text without city":     {trip, `{"confirmation":"{\"when\":\"2026-02-01\"}"}`, agent, "MISSING_FIELD", `missing "city"`},
		"empty text form":       {duration, `{"confirmation":"{}"}`, agent, "MISSING_FIELD", "/minutes: got object"},
		"two fields rejected":   {trip, `{"confirmation":"rejected"}`, agent, declined, "rejected"},
		"rejected as choice":    {verdict, `{"confirmation":"rejected"}`, agent, accepted, `{"verdict":"rejected"}`},
		"rejected as text":      {note, `{"confirmation":"rejected"}`, agent, declined, "rejected"},
		"plain text":            {note, `{"confirmation":"a <b> & c"}`, agent, accepted, `{"note":"a <b> & c"}`},
		"plain boolean":         {open, `{"confirmation":"Yes"}`, agent, accepted, `{"open":true}`},
		"plain not boolean":     {open, `{"confirmation":"maybe"}`, agent, "MISSING_FIELD", "no value of the form (open)"},
		"lists by person":       {meeting, `{"days":["Tue"],"teams":["t1","t2"],"people":["Ada"]}`, person, accepted, `{"days":["Tue"],"teams":["t1","t2"],"people":["Ada"]}`},
		"another day":           {meeting, `{"days":["Tue","Sun"]}`, person, "MISSING_FIELD", "/days/1"},
		"a day twice":           {meeting, `{"days":["Tue","Tue"]}`, person, "MISSING_FIELD", "/days"},
		"no day":                {meeting, `{"days":[]}`, person, "MISSING_FIELD", "/days"},
		"list as text":          {meeting, `{"days":"mon, Tue","teams":"support","people":"Doe, Jane\nAda"}`, agent, accepted, `{"days":["Mon","Tue"],"teams":["t2"],"people":["Doe, Jane","Ada"]}`},
		"unseen in a list":      {meeting, `{"days":["Mon"],"people":["\u3164"]}`, agent, "MISSING_FIELD", `"people"`},
		"plain list":            {days, `{"confirmation":"mon"}`, agent, accepted, `{"days":["Mon"]}`},
		"plain list as JSON":    {days, `{"confirmation":"[\"Mon\"]"}`, agent, accepted, `{"days":["Mon"]}`},
		"rejected in a list":    {days, `{"confirmation":"rejected"}`, agent, accepted, `{"days":["rejected"]}`},
		"list rejected":         {meeting, `{"confirmation":"rejected"}`, agent, declined, "rejected"},
		"own confirmation":      {own, `{"confirmation":"no"}`, agent, accepted, `{"confirmation":"no"}`},
		"own confirmation, bad": {own, `{"confirmation":"rejected"}`, agent, "MISSING_FIELD", "/confirmation"},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res := advance(t, d.Challenge, tc.challenge, evidence(tc.value, tc.by))
				switch tc.outcome {
				case accepted:
					if res.Accepted == nil || !sameJSON(res.Accepted.Output, tc.says) {
						t.Fatalf("Advance(%s) = %+v, want accepted %s", tc.value, res, tc.says)
					}
				case declined:
					if res.Declined == nil || !strings.Contains(res.Declined.Reason, tc.says) {
						t.Fatalf("Advance(%s) = %+v, want declined", tc.value, res)
					}
				default:
					if res.Rejected == nil || res.Rejected.Code != tc.outcome || !strings.Contains(res.Rejected.Message, tc.says) {
						t.Fatalf("Advance(%s) = %+v, want %s %q", tc.value, res, tc.outcome, tc.says)
					}
				}
			})
		})
	}
}

// Clients and agents send the fields that were left empty, too.
func TestAnEmptyOptionalFieldIsAbsent(t *testing.T) {
	for _, by := range []driver.Provenance{agent, model, person} {
		for value, want := range map[string]string{
			`{"days":["Mon"],"room":"","when":"","note":"","people":[],"teams":""}`:                `{"days":["Mon"]}`,
			`{"room":null,"days":["Mon"],"when":null,"note":null,"people":null,"teams":null}`:      `{"days":["Mon"]}`,
			`{"days":["Mon"],"room":"r2","when":"2026-02-01","note":" ","people":[""],"teams":[]}`: ``, // " " has nothing that can be seen
			`{"days":["Mon"],"note":"none"}`:                                                       `{"days":["Mon"],"note":"none"}`,
			`{"days":null,"note":"none"}`:                                                          ``, // is required
			`{"days":"","note":"none"}`:                                                            ``,
		} {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res := advance(t, d.Challenge, meeting, evidence(value, by))
				if want == "" && res.Rejected == nil || want != "" && (res.Accepted == nil || string(res.Accepted.Output) != want) {
					t.Errorf("Advance(%s) by %s = %+v, want %q", value, by, res, want)
				}
			})
		}
	}
	// Without a say on what is required, all is: an empty text is what the person filled in.
	if res := advance(t, definition().Challenge, note, evidence(`{"note":""}`, person)); res.Accepted == nil || string(res.Accepted.Output) != `{"note":""}` {
		t.Errorf("Advance = %+v, want the empty note", res)
	}
	// An empty text may be one of the choices.
	const choice = `{"type":"user_input","output_schema":{"type":"object","properties":{"room":{"type":"string","oneOf":[{"const":"","title":"None"},{"const":"r1"}]}},"required":[]}}`
	if res := advance(t, definition().Challenge, choice, evidence(`{"room":""}`, person)); res.Accepted == nil || string(res.Accepted.Output) != `{"room":""}` {
		t.Errorf("Advance = %+v, want the choice", res)
	}
}

// Hidden characters alone answer nothing, alone, repeated or between blanks.
func TestHiddenCharactersDoNotAnswer(t *testing.T) {
	for _, r := range []rune{0, '\u200b', '\u200d', '\u3164', '\u2800', '\u115f', '\u034f', '\ufe0f', '\u00ad', '\u202e', '\ue000', '\U000e0041', '\u00a0', '\ufffd'} {
		for _, said := range []string{string(r), strings.Repeat(string(r), 20), " " + string(r) + "\n"} {
			value, err := json.Marshal(map[string]string{"confirmation": said})
			if err != nil {
				t.Fatal(err)
			}
			if res := advance(t, definition().Challenge, confirm, evidence(string(value), agent)); res.Rejected == nil || res.Rejected.Code != "MISSING_FIELD" {
				t.Errorf("Advance(%s) = %+v, want MISSING_FIELD", value, res)
			}
		}
	}
}

func sameJSON(got json.RawMessage, want string) bool {
	var g, w any
	return json.Unmarshal(got, &g) == nil && json.Unmarshal([]byte(want), &w) == nil && cmp.Equal(g, w)
}

func TestProofSaysWhatWasAnswered(t *testing.T) {
	for name, tc := range map[string]struct{ challenge, value, want string }{
		"confirmation": {confirm, `{"confirmation":"approved","timestamp":"2026-01-01T00:00:00Z"}`,
			`{"type":"user_input","prompt":"Deploy to production?","confirmation":"approved","timestamp":"2026-01-01T00:00:00Z"}`},
		"form": {note, `{"note":"x"}`,
			`{"type":"user_input","prompt":"Please confirm that this step is completed as described.","form":{"note":"x"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			res := advance(t, definition().Challenge, tc.challenge, evidence(tc.value, agent))
			if res.Accepted == nil {
				t.Fatalf("Advance = %+v, want accepted", res)
			}
			if diff := cmp.Diff(tc.want, string(res.Accepted.Proof)); diff != "" {
				t.Errorf("proof (-want +got):\n%s", diff)
			}
		})
	}
}

// An answer that the server obtained itself has the time of that.
func TestProofSaysWhenTheServerWasAnswered(t *testing.T) {
	for challenge, tc := range map[string]struct{ value, want string }{
		confirm: {`{"confirmation":"approved"}`,
			`{"type":"user_input","prompt":"Deploy to production?","confirmation":"approved","timestamp":"2026-11-25T21:00:00Z"}`},
		note: {`{"note":"x"}`,
			`{"type":"user_input","prompt":"Please confirm that this step is completed as described.","timestamp":"2026-11-25T21:00:00Z","form":{"note":"x"}}`},
	} {
		drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
			a := evidence(tc.value, person)
			a.ObtainedAt = "2026-11-25T21:00:00Z"
			if res := advance(t, d.Challenge, challenge, a); res.Accepted == nil || string(res.Accepted.Proof) != tc.want {
				t.Errorf("Advance(%s) = %+v, want the proof %s", challenge, res, tc.want)
			}
		})
	}
}

func TestValidateFindsWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct{ challenge, want, result string }{
		"prompt":       {confirm, "", `{"type":"user_input","user_input":{"prompt":"Deploy to production?"}}`},
		"default":      {`{"type":"user_input"}`, "", `{"type":"user_input","user_input":{"prompt":"Please confirm that this step is completed as described."}}`},
		"template":     {`{"user_input":{"prompt":"Meet {{ input.who }}?"}}`, "", `{"type":"user_input","user_input":{"prompt":"Meet {{ input.who }}?"}}`},
		"unknown":      {`{"user_input":{"promt":"x","prompt":"p"}}`, `/user_input/promt: unknown key "promt"; did you mean "prompt"?`, ``},
		"type":         {`{"user_input":{"prompt":["x"]}}`, `/user_input/prompt: must be a string, not a list`, ``},
		"not flat":     {`{"output_schema":{"type":"object","properties":{"o":{"type":"object"}}}}`, `/output_schema: a person cannot fill this form: field "o": type must be one of string, number, integer, boolean`, ``},
		"lists":        {meeting, "", meeting},
		"untyped list": {`{"output_schema":{"type":"object","properties":{"o":{"type":"array"}}}}`, `/output_schema: a person cannot fill this form: field "o": a list needs "items": what each of its items is`, ``},
		"no schema":    {`{"output_schema":"x"}`, `/output_schema: a person cannot fill this form: a form needs "type": "object"`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res, err := d.Challenge.Validate(t.Context(), driver.ValidateRequest{Challenge: json.RawMessage(tc.challenge)})
				if err != nil {
					t.Fatal(err)
				}
				if got := fields.Text(res.Diagnostics); got != tc.want {
					t.Errorf("Validate(%s) says %q, want %q", tc.challenge, got, tc.want)
				}
				if tc.result == "" && res.Challenge != nil || tc.result != "" && !sameJSON(res.Challenge, tc.result) {
					t.Errorf("Validate(%s) gives %s, want %s", tc.challenge, res.Challenge, tc.result)
				}
				if diff := cmp.Diff([]driver.Template{{Pointer: "/user_input/prompt", Escaping: driver.EscapeQuote}}, res.Templates); diff != "" {
					t.Errorf("templates:\n%s", diff)
				}
			})
		})
	}
}

func TestAPersonIsAlwaysAskedFor(t *testing.T) {
	if got := definition().Descriptor.Approval; got != driver.ApprovalUser {
		t.Errorf("approval = %q, want user", got)
	}
	for _, challenge := range []string{confirm, duration} {
		in := advance(t, definition().Challenge, challenge).NeedInput[0]
		if !in.Person || in.Approval != driver.ApprovalUser || strings.Contains(string(in.Schema), `"default"`) {
			t.Errorf("input of %s = %+v, want a person's, without defaults", challenge, in)
		}
	}
}

// An answer that the server obtained itself passes only if it is in the strict schema.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{`{"confirmation":"approved"}`, `{"confirmation":"{\"minutes\":5}"}`, `{"minutes":45}`, `{"confirmation":"rejected"}`, `[]`, `null`} {
		for by := range byte(2) {
			f.Add([]byte(seed), by, true)
			f.Add([]byte(seed), by, false)
		}
	}
	f.Fuzz(func(t *testing.T, value []byte, by byte, form bool) {
		challenge, accepted := confirm, json.RawMessage(`{"const":{"confirmation":"approved"}}`)
		if form {
			challenge, accepted = duration, json.RawMessage(`{"properties":{"minutes":{"type":"integer","minimum":5}},"required":["minutes"]}`)
		}
		provenance := []driver.Provenance{agent, model}[by%2]
		res := advance(t, definition().Challenge, challenge, evidence(string(value), provenance))
		if res.Accepted == nil {
			return
		}
		if found := schema.Validate(accepted, res.Accepted.Output); found != nil && (form || provenance == model) {
			t.Errorf("accepted %s by %s: output %s: %v", value, provenance, res.Accepted.Output, found)
		}
	})
}

// TestAPhraseNeedsAQuestionForYesOrNo: a form of the step's own has no place for it.
func TestAPhraseNeedsAQuestionForYesOrNo(t *testing.T) {
	for challenge, valid := range map[string]bool{
		`{"type":"user_input","approval":{"phrase":"go"},"user_input":{"prompt":"Ship?"}}`:                                                          true,
		`{"type":"user_input","approval":{"phrase":"go"},"user_input":{},"output_schema":{"type":"object","properties":{"day":{"type":"string"}}}}`: false,
	} {
		res, err := definition().Challenge.Validate(t.Context(), driver.ValidateRequest{Challenge: json.RawMessage(challenge)})
		if err != nil || fields.AnyError(res.Diagnostics) == valid {
			t.Errorf("Validate(%s) = %+v, %v, want valid: %v", challenge, res.Diagnostics, err, valid)
		}
	}
}
