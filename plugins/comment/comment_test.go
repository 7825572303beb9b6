package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
	"github.com/kairos-mcp/kairos/sdk/drivertest/golden"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

const (
	ten   = `{"type":"comment"}`
	fifty = `{"type":"comment","comment":{"min_length":50}}`

	stepText = "## Rotate the credential\n\nCreate a new key in the vault, deploy it to every consumer, then revoke the old key."
	honest   = "Key 4711 is live on all six consumers; 4690 was revoked at noon."
)

func request(challenge, text, similarity string) driver.AdvanceRequest {
	req := driver.AdvanceRequest{
		Challenge: json.RawMessage(challenge),
		Step:      driver.Step{Protocol: "Credentials", Label: "Rotate the credential", Text: stepText, Index: 1, Count: 2},
	}
	if text != "" {
		req.Answers = append(req.Answers, driver.Answer{InputID: "evidence", Value: json.RawMessage(text), Provenance: driver.AgentReported})
	}
	if similarity != "" {
		req.Answers = append(req.Answers, driver.Answer{InputID: "relevance", Value: json.RawMessage(similarity), Provenance: driver.ServerObserved})
	}
	return req
}

func advance(t testing.TB, d driver.Challenge, req driver.AdvanceRequest) driver.AdvanceResult {
	t.Helper()
	res, err := d.Advance(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func evidence(text string) string {
	raw, _ := json.Marshal(map[string]string{"text": text})
	return string(raw)
}

func configured(t *testing.T, config string) comment {
	t.Helper()
	c := newComment()
	found, err := c.Configure(t.Context(), json.RawMessage(config), false)
	if err != nil || found != nil {
		t.Fatalf("Configure(%s) = %v, %v", config, found, err)
	}
	return c
}

func TestCommentThenSimilarityIsAskedFor(t *testing.T) {
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		golden.Compare(t, "need", advance(t, d.Challenge, request(fifty, "", "")).NeedInput)
		golden.Compare(t, "need_relevance", advance(t, d.Challenge, request(ten, evidence(honest), "")).NeedInput)
	})
}

func TestLongTextsAreComparedByTheirBeginning(t *testing.T) {
	req := request(ten, evidence("The key 4711 is live"+strings.Repeat("ü", 9000)), "")
	req.Step.Text = strings.Repeat("ж", 9000)
	got := advance(t, newComment(), req).NeedInput[0].Similarity
	if len([]rune(got.Text)) != 8000 || len([]rune(got.Reference)) != 8000 {
		t.Errorf("Similarity has %d and %d characters, want 8000 each", len([]rune(got.Text)), len([]rune(got.Reference)))
	}
}

func TestCommentIsJudged(t *testing.T) {
	const near, far = `{"score":0.6,"method":"embedding"}`, `{"score":0.1,"method":"embedding"}`
	const lexicalFar = `{"score":0.0,"method":"lexical"}`
	for name, tc := range map[string]struct{ challenge, value, similarity, code, says string }{
		"relevant":             {ten, evidence(honest), near, "", ""},
		"at threshold":         {ten, evidence(honest), `{"score":0.25,"method":"embedding"}`, "", ""},
		"irrelevant":           {ten, evidence("I like turtles very much indeed."), far, "COMMENT_IRRELEVANT", "similarity 0.10 by embedding, at least 0.25"},
		"word vectors":         {ten, evidence("I like turtles very much indeed."), `{"score":0,"method":"word-vectors"}`, "", ""},
		"lexical only":         {ten, evidence("Schlüssel getauscht, alter gesperrt."), lexicalFar, "", ""},
		"too short":            {ten, evidence("ok done"), "", "COMMENT_TOO_SHORT", "7 characters, at least 10"},
		"short of fifty":       {fifty, evidence("Key 4711 is live."), "", "COMMENT_TOO_SHORT", "at least 50"},
		"characters count":     {ten, evidence("鍵を更新、旧鍵は失効"), near, "", ""},
		"bytes do not":         {ten, evidence("éééé"), "", "COMMENT_TOO_SHORT", "4 characters"},
		"blanks do not":        {ten, evidence("done          "), "", "COMMENT_TOO_SHORT", "4 characters"},
		"hidden ones do not":   {ten, evidence("done\u200b\u200b\u200b\u200b\u200b\u200b\u200b"), "", "COMMENT_TOO_SHORT", "4 characters"},
		"blanks inside do not": {ten, evidence("d          \u00a0\u3000\u00a0one"), "", "COMMENT_TOO_SHORT", "5 characters"},
		"marks alone":          {fifty, evidence(strings.Repeat("\u0301", 50)), "", "COMMENT_TOO_SHORT", "0 characters"},
		"marks on letters":     {ten, evidence("ok" + strings.Repeat("\u0338", 50)), "", "COMMENT_TOO_SHORT", "3 characters"},
		"marks on signs":       {ten, evidence(strings.Repeat("!\u0301", 20)), "", "COMMENT_TOO_SHORT", "repeats itself"},
		"repeated":             {ten, evidence("not done not done"), "", "COMMENT_TOO_SHORT", "repeats itself: without that it has 7 letters"},
		"repeated, almost":     {ten, evidence("not done, not done x"), "", "COMMENT_TOO_SHORT", "repeats itself"},
		"one letter":           {ten, evidence("aaaaaaaaaaaaaaaaaaaa"), "", "COMMENT_TOO_SHORT", "repeats itself"},
		"one character":        {ten, evidence("鍵鍵鍵鍵鍵鍵鍵鍵鍵鍵鍵鍵"), "", "COMMENT_TOO_SHORT", "repeats itself"},
		"repeats a little":     {ten, evidence("All tests passed; the smoke tests passed, too."), near, "", ""},
		"long sentence twice":  {ten, evidence(honest + " " + honest), near, "", ""},
		"zero is ten":          {`{"comment":{"min_length":0}}`, evidence("too short"), "", "COMMENT_TOO_SHORT", "at least 10"},
		"copy":                 {ten, evidence("create a NEW key in the vault, deploy it to every consumer,\n then revoke the old key"), near, "COMMENT_IRRELEVANT", "does not say already"},
		"copy with thanks":     {ten, evidence("Done: " + stepText), near, "COMMENT_IRRELEVANT", "own words"},
		"nothing said":         {ten, evidence("!!!!!!!!!!!!!!!"), near, "COMMENT_IRRELEVANT", "says nothing"},
		"no text":              {ten, `{}`, "", "MISSING_FIELD", "/comment/text: is missing"},
		"null":                 {ten, `{"text":null}`, "", "MISSING_FIELD", "is missing"},
		"list":                 {ten, `{"text":["a long enough text"]}`, "", "MISSING_FIELD", "must be a string"},
		"twice":                {ten, `{"text":"a long enough text","text":"b"}`, "", "MISSING_FIELD", "occurs twice"},
		"bare":                 {ten, `"a long enough text"`, "", "MISSING_FIELD", "must be an object"},
		"empty":                {ten, evidence(""), "", "COMMENT_TOO_SHORT", "0 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res := advance(t, d.Challenge, request(tc.challenge, tc.value, tc.similarity))
				if tc.code == "" {
					if res.Accepted == nil || !strings.Contains(tc.value, strings.Trim(string(res.Accepted.Output), "{}")) {
						t.Fatalf("Advance(%s) = %+v, want accepted", tc.value, res)
					}
					return
				}
				if res.Rejected == nil || res.Rejected.Code != tc.code || !strings.Contains(res.Rejected.Message, tc.says) {
					t.Fatalf("Advance(%s) = %+v, want %s %q", tc.value, res.Rejected, tc.code, tc.says)
				}
			})
		})
	}
}

func TestProofSaysHowRelevanceWasJudged(t *testing.T) {
	for name, tc := range map[string]struct{ config, step, similarity, want string }{
		"embedding":        {`{}`, stepText, `{"score":0.5,"method":"embedding"}`, `{"method":"embedding","score":0.5,"threshold":0.25,"enforced":true}`},
		"own threshold":    {`{"embedding_threshold":0.4}`, stepText, `{"score":0.5,"method":"embedding"}`, `{"method":"embedding","score":0.5,"threshold":0.4,"enforced":true}`},
		"word vectors":     {`{}`, stepText, `{"score":0,"method":"word-vectors"}`, `{"method":"word-vectors","score":0,"enforced":false}`},
		"vectors enforced": {`{"word_vectors_threshold":0.1}`, stepText, `{"score":0.1,"method":"word-vectors"}`, `{"method":"word-vectors","score":0.1,"threshold":0.1,"enforced":true}`},
		"lexical":          {`{}`, stepText, `{"score":0,"method":"lexical"}`, `{"method":"lexical","score":0,"enforced":false}`},
		"endpoint is down": {`{}`, stepText, `{"score":0,"method":"lexical","reason":"it did not answer"}`, `{"method":"lexical","score":0,"enforced":false,"reason":"it did not answer"}`},
		"lexical enforced": {`{"lexical_threshold":0.1}`, stepText, `{"score":0.2,"method":"lexical"}`, `{"method":"lexical","score":0.2,"threshold":0.1,"enforced":true}`},
		"other method":     {`{}`, stepText, `{"score":0,"method":"oracle"}`, `{"method":"oracle","score":0,"enforced":false}`},
		"short step":       {`{}`, "## Rotate the credential of the vault\n\nDo it.", "", `{"method":"none","enforced":false,"reason":"the step's text is too short to compare with"}`},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(ten, evidence(honest), tc.similarity)
			req.Step.Text = tc.step
			res := advance(t, configured(t, tc.config), req)
			if res.Accepted == nil {
				t.Fatalf("Advance = %+v, want accepted", res)
			}
			want := fmt.Sprintf(`{"type":"comment","text":%q,"min_length":10,"relevance":%s}`, honest, tc.want)
			if diff := cmp.Diff(want, string(res.Accepted.Proof)); diff != "" {
				t.Errorf("proof (-want +got):\n%s", diff)
			}
		})
	}
}

func TestThresholdsAreEnforcedWhenSet(t *testing.T) {
	for config, similarity := range map[string]string{
		`{"lexical_threshold":0.1}`:      `{"score":0.05,"method":"lexical"}`,
		`{"word_vectors_threshold":0.1}`: `{"score":0.05,"method":"word-vectors"}`,
	} {
		res := advance(t, configured(t, config), request(ten, evidence(honest), similarity))
		if res.Rejected == nil || res.Rejected.Code != "COMMENT_IRRELEVANT" {
			t.Errorf("Advance with %s = %+v, want COMMENT_IRRELEVANT", config, res)
		}
	}
}

func TestBrokenSimilarityIsAnErrorNotAVerdict(t *testing.T) {
	for _, value := range []string{`{}`, `{"score":2,"method":"embedding"}`, `{"score":"1","method":"embedding"}`, `{"score":0.5}`, `1`} {
		if res, err := newComment().Advance(t.Context(), request(ten, evidence(honest), value)); err == nil {
			t.Errorf("Advance with similarity %s = %+v, want an error", value, res)
		}
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	c := newComment()
	if found, err := c.Configure(t.Context(), json.RawMessage(`{"embedding_threshold":0.9}`), true); found != nil || err != nil {
		t.Fatalf("Configure = %v, %v", found, err)
	}
	if res := advance(t, c, request(ten, evidence(honest), `{"score":0.5,"method":"embedding"}`)); res.Accepted == nil {
		t.Errorf("Advance = %+v, want accepted by the default threshold", res)
	}
	for _, bad := range []string{`{"embedding_threshold":2}`, `{"threshold":0.1}`, `{"lexical_threshold":"0.1"}`, `[]`, `{`} {
		if found, err := c.Configure(t.Context(), json.RawMessage(bad), false); found == nil && err == nil {
			t.Errorf("Configure(%s) is taken", bad)
		}
	}
}

// Honest comments reuse the words of their step; copies reuse nothing else.
func TestCopiesAreToldFromHonestComments(t *testing.T) {
	const short = "## Test\n\nRun the tests."
	const build = "## Build\n\nMake sure all tests passed and the build is green before you proceed to deploy the release."
	for name, tc := range map[string]struct {
		step, comment string
		copied        bool
	}{
		"own words":            {stepText, honest, false},
		"step's words":         {build, "All tests passed and build is green.", false},
		"short quote":          {build, "all tests passed", false},
		"body and a result":    {short, "Run the tests. All 214 passed in 31 s.", false},
		"body, then a report":  {stepText, stepText + " Did so: key 4711 is live on six consumers, 4690 revoked at noon, no errors in the logs since then.", false},
		"whole":                {stepText, stepText, true},
		"body":                 {stepText, "Create a new key in the vault, deploy it to every consumer, then revoke the old key.", true},
		"heading":              {stepText, "rotate the *credential*", true},
		"short body":           {short, "Run the tests", true},
		"a long part":          {stepText, "deploy it to every consumer, then revoke the old key", true},
		"most of it, reworded": {stepText, "Create a new key in the vault, deploy it to every consumer, then revoke the old key. Done!", true},
		"spaced":               {stepText, "create  a   new key\nin the VAULT deploy it to every consumer then revoke the old key", true},
		"another script":       {"## 鍵\n\n金庫で新しい鍵を作り、すべての利用者に配布し、古い鍵を失効させる。", "金庫で新しい鍵を作り、すべての利用者に配布し、古い鍵を失効させる", true},
		"another script, own":  {"## 鍵\n\n金庫で新しい鍵を作り、すべての利用者に配布し、古い鍵を失効させる。", "新しい鍵は六台で稼働中、旧鍵は正午に失効済み", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := copied(tc.comment, tc.step); got != tc.copied {
				t.Errorf("copied(%q) = %v, want %v", tc.comment, got, tc.copied)
			}
		})
	}
}

func TestValidateFindsWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct{ challenge, want, result string }{
		"default":  {ten, "", `{"comment":{"min_length":10},"type":"comment"}`},
		"zero":     {`{"comment":{"min_length":0},"required":false}`, "/comment/min_length: 0 is read as the default of 10", `{"comment":{"min_length":10},"required":false,"type":"comment"}`},
		"given":    {fifty, "", `{"comment":{"min_length":50},"type":"comment"}`},
		"unknown":  {`{"comment":{"min":5}}`, `/comment/min: unknown key "min"; did you mean "min_length"?`, `{"comment":{"min":5,"min_length":10},"type":"comment"}`},
		"text":     {`{"comment":{"min_length":"50"}}`, `/comment/min_length: must be a number, not a string`, ``},
		"negative": {`{"comment":{"min_length":-1}}`, `/comment/min_length: must be a whole number from 0 (the default of 10) to 100000`, ``},
		"fraction": {`{"comment":{"min_length":1.5}}`, `/comment/min_length: must be a whole number from 0 (the default of 10) to 100000`, ``},
		"list":     {`{"comment":[]}`, `/comment: must be an object, not a list`, ``},
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
				if string(res.Challenge) != tc.result {
					t.Errorf("Validate(%s) gives %s, want %s", tc.challenge, res.Challenge, tc.result)
				}
			})
		})
	}
}

func TestContract(t *testing.T) {
	near := `{"score":0.6,"method":"embedding"}`
	drivertest.Run(t, definition(),
		drivertest.Sample{Name: "valid", Request: driver.ValidateRequest{Challenge: json.RawMessage(fifty)}, Want: drivertest.Valid},
		drivertest.Sample{Name: "invalid", Request: driver.ValidateRequest{Challenge: json.RawMessage(`{"comment":7}`)}, Want: drivertest.Invalid},
		drivertest.Sample{Name: "ask", Request: request(ten, "", ""), Want: drivertest.NeedInput},
		drivertest.Sample{Name: "compare", Request: request(ten, evidence(honest), ""), Want: drivertest.NeedInput},
		drivertest.Sample{Name: "relevant", Request: request(ten, evidence(honest), near), Want: drivertest.Accepted},
		drivertest.Sample{Name: "copy", Request: request(ten, evidence(stepText), near), Want: drivertest.Rejected},
		drivertest.Sample{Name: "broken challenge", Request: request(`{"comment":7}`, evidence(honest), near), Want: drivertest.Unavailable},
	)
}

func FuzzComment(f *testing.F) {
	f.Add([]byte(evidence(honest)), stepText)
	f.Add([]byte(evidence(stepText)), stepText)
	f.Add([]byte(`{"text":"\ud800 long enough text"}`), "# \xff")
	f.Fuzz(func(t *testing.T, value []byte, step string) {
		req := request(ten, string(value)+" ", `{"score":1,"method":"embedding"}`)
		req.Step.Text = step
		res := advance(t, newComment(), req)
		if res.Accepted == nil {
			return
		}
		var said struct{ Text string }
		if json.Unmarshal(res.Accepted.Output, &said) != nil || len([]rune(said.Text)) < 10 || strings.EqualFold(said.Text, strings.TrimSpace(step)) {
			t.Errorf("accepted %s for step %q", value, step)
		}
	})
}
