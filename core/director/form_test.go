package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestATemplateSentAsItIsProvesNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.drivers.set("has a form shell", true)
	uris := w.mint(threeSteps)
	shown := w.begin(uris[0])
	in := w.advised(shown)
	uri, template := in.URI, in.solution(t)
	r := w.next(uri, template)
	w.code(r, "MISSING_FIELD")
	w.at(r, uris[0])
	if *r.RetryCount != 0 || !strings.Contains(r.Message, "/shell/ok") || !strings.Contains(r.Message, "/shell/note") {
		t.Errorf("retry_count %d, message %q; want none counted and the places named", *r.RetryCount, r.Message)
	}
	if diff := cmp.Diff(shown.NextCall, r.NextCall); diff != "" {
		t.Errorf("the call changed (-before +after):\n%s", diff)
	}
	if want := "kairos_next with " + uris[0] + " and a solution of type shell"; r.Tried != want {
		t.Errorf("tried = %q, want %q", r.Tried, want)
	}
	half := strings.Replace(template, `"<boolean>"`, "true", 1)
	w.code(w.next(uri, half), "MISSING_FIELD") // what is optional has to go, too
	whole := strings.Replace(half, `"<string, optional>"`, `"<b>"`, 1)
	if whole == half {
		t.Fatalf("the template is %s", template)
	}
	if r := w.next(uri, whole); r.ErrorCode != "" {
		t.Fatalf("the filled template is refused: %s %s", r.ErrorCode, r.Message)
	}
}

func TestAnAttestationIsToBeFilledInToo(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint("# Alone\n\n## Only\n\nDo it.\n")
	r := w.next(uris[0], placeholder(w.begin(uris[0])))
	if r.NextCall == nil || r.NextCall.Tool != "kairos_attest" {
		t.Fatalf("next_call = %+v", r.NextCall)
	}
	var in struct{ URI, Outcome, Message string }
	if err := json.Unmarshal(r.NextCall.Arguments, &in); err != nil {
		t.Fatal(err)
	}
	attest := func(outcome, message string) error {
		_, err := w.Attest(context.Background(), w.caller, api.AttestRequest{URI: in.URI, Outcome: outcome, Message: message, RunID: r.RunID})
		return err
	}
	refused(t, attest(in.Outcome, "done"), fault.InvalidArgument)
	refused(t, attest("success", in.Message), fault.InvalidArgument)
	if err := attest("success", "done"); err != nil {
		t.Error(err)
	}
}

func TestRunInputIsToBeFilledInToo(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint("# Greet\n\n```json\n{\"inputs\":{\"type\":\"object\",\"required\":[\"name\",\"tone\"],\"properties\":{\"name\":{\"type\":\"string\",\"description\":\"Who\"},\"tone\":{\"type\":\"string\"}}}}\n```\n\n## Only\n\nDo it.\n")
	begin := func(input string) error {
		_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], Input: json.RawMessage(input)})
		return err
	}
	err := begin(`{"tone":"warm"}`)
	refused(t, err, fault.MissingInput)
	var f *fault.Error
	errors.As(err, &f)
	want := &fault.Call{Tool: "kairos_begin", Arguments: map[string]any{
		"uri": uris[0], "input": map[string]any{"name": "<string: Who>", "tone": "warm"},
	}}
	if diff := cmp.Diff(want, f.NextCall); diff != "" {
		t.Errorf("next_call (-want +got):\n%s", diff)
	}
	refused(t, begin(`{"tone":"warm","name":"<string: Who>"}`), fault.InvalidArgument, "/input/name")
}

// Hosts that check arguments by the listed schema take nothing but a text there.
func TestWhatHasNoFieldOfItsOwnIsEvidenceAsText(t *testing.T) {
	w := newWorld(t, func(c *choices) { c.SolutionFields = []string{"mcp"} })
	w.drivers.set("has a form shell", true)
	uris := w.mint(threeSteps)
	in := w.advised(w.begin(uris[0]))
	const form = `{"note":"<string, optional>","ok":"<boolean>"}`
	if in.Solution["shell"] != nil || in.Solution["evidence"] != "<JSON as text: "+form+">" {
		t.Errorf("solution = %v, want the form in evidence, as one placeholder", in.Solution)
	}
	r := w.next(uris[0], in.solution(t))
	w.code(r, "MISSING_FIELD")
	if !strings.Contains(r.Message, "/evidence") {
		t.Errorf("message = %q, want the place", r.Message)
	}
	in.Solution["evidence"] = form
	if r = w.next(uris[0], in.solution(t)); r.ErrorCode != "MISSING_FIELD" || !strings.Contains(r.Message, "/evidence/ok") {
		t.Errorf("the shape itself is %s %q, want its places to be named", r.ErrorCode, r.Message)
	}
}

func TestNoPlaceholderOfARunInputIsTaken(t *testing.T) {
	long := strings.Repeat("x", 150)
	fields := []string{`"named":{"type":"string","description":"Who"}`}
	for i := range 80 {
		fields = append(fields, fmt.Sprintf(`"k%d":{"type":"string","description":"%s"}`, i, long))
	}
	for what, inputs := range map[string]string{
		"a key without a schema": `{"type":"object","required":["named"],"properties":{"other":{"type":"string"}}}`,
		"a key among very many":  `{"type":"object","required":["named"],"properties":{` + strings.Join(fields, ",") + `}}`,
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, nil)
			uris := w.mint("# Greet\n\n```json\n{\"inputs\":" + inputs + "}\n```\n\n## Only\n\nDo it.\n")
			_, err := w.Begin(context.Background(), w.caller, api.BeginRequest{URI: uris[0]})
			var f *fault.Error
			if !errors.As(err, &f) || f.Code != fault.MissingInput || f.NextCall == nil {
				t.Fatalf("Begin without input = %v, want MISSING_INPUT with next_call", err)
			}
			copied, err := json.Marshal(f.NextCall.Arguments["input"])
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.Begin(context.Background(), w.caller, api.BeginRequest{URI: uris[0], Input: copied})
			refused(t, err, fault.InvalidArgument)
		})
	}
}

// advice is the call of kairos_next that a reply advises.
type advice struct {
	URI      string         `json:"uri"`
	RunID    string         `json:"run_id"`
	Solution map[string]any `json:"solution"`
}

func (w *world) advised(r *api.StepReply) (in advice) {
	w.t.Helper()
	if r.NextCall == nil || r.NextCall.Tool != api.ToolNext {
		w.t.Fatalf("next_call = %+v, want kairos_next", r.NextCall)
	}
	if err := json.Unmarshal(r.NextCall.Arguments, &in); err != nil {
		w.t.Fatal(err)
	}
	return in
}

func (a advice) solution(t testing.TB) string {
	t.Helper()
	b, err := api.Encode(a.Solution, "") // does not escape placeholders
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// follow makes the calls that the replies give, exactly as they give them apart from the
// values for their placeholders, until none is left or a person is waited for. What
// the client is asked meanwhile, it answers with replies.
func (w *world) follow(r *api.StepReply, reply func(a *director.Ask) director.Continuation) []*api.StepReply {
	w.t.Helper()
	trail := []*api.StepReply{r}
	for range 12 {
		if r.NextCall == nil || r.NextCall.Tool != api.ToolNext || r.ErrorCode == "WAITING_FOR_USER" {
			return trail
		}
		in := w.advised(r)
		for name := range in.Solution {
			if name != "type" && name != "nonce" && name != "proof_hash" {
				in.Solution[name] = filledIn(name)
			}
		}
		round, err := w.Next(w.t.Context(), w.caller, api.NextRequest{URI: in.URI, RunID: in.RunID, Solution: json.RawMessage(in.solution(w.t))})
		for err == nil && round.Reply == nil {
			answer := reply(round.Ask)
			answer.Run, answer.Seq = round.Ask.Run, round.Ask.Seq
			round, err = w.Continue(w.t.Context(), w.caller, answer)
		}
		if err != nil {
			w.t.Fatalf("the call that %s gives is an error: %v", r.NextCall.Arguments, err)
		}
		r = round.Reply
		trail = append(trail, r)
	}
	w.t.Fatalf("the calls lead nowhere; the last reply is %q: %s", r.ErrorCode, r.Message)
	return nil
}

func filledIn(field string) any {
	if field == "user_input" {
		return map[string]any{"confirmation": "approved"}
	}
	return map[string]any{"ok": true, "what": "v1"}
}

func failsWith(code int) func(*director.Ask) director.Continuation {
	return func(a *director.Ask) director.Continuation {
		return director.Continuation{Error: &driver.ClientError{Code: code, Message: "the client cannot do " + a.Method}}
	}
}

func replies(result string) func(*director.Ask) director.Continuation {
	return func(*director.Ask) director.Continuation {
		return director.Continuation{Result: json.RawMessage(result)}
	}
}

// An agent that is trusted with approvals gets along by making the calls that it is given, whatever its
// client declares and does.
func TestTheCallOfAReplyIsAcceptedAsGiven(t *testing.T) {
	for name, tc := range map[string]struct {
		client driver.Client
		reply  func(*director.Ask) director.Continuation
		page   bool
		end    string // the code of the last reply; empty: the run is complete
	}{
		"no client":                        {driver.Client{}, nil, false, ""},
		"no client, a page":                {driver.Client{}, nil, true, ""},
		"a form that fails":                {driver.Client{ElicitationForm: true}, failsWith(-32603), false, ""},
		"a form that fails, a page":        {driver.Client{ElicitationForm: true}, failsWith(-32603), true, ""},
		"a form that is not known":         {driver.Client{ElicitationForm: true}, failsWith(-32601), false, ""},
		"a form with a broken answer":      {driver.Client{ElicitationForm: true}, replies(`{}`), false, ""},
		"a form that works":                {driver.Client{ElicitationForm: true}, replies(yes), false, ""},
		"an address that fails":            {driver.Client{ElicitationURL: true}, failsWith(-32603), true, ""},
		"forms and models that fail":       {driver.Client{ElicitationForm: true, Sampling: true}, failsWith(-32603), false, ""},
		"models that fail":                 {driver.Client{Sampling: true}, failsWith(-32603), true, ""},
		"an address, and the page is open": {driver.Client{ElicitationURL: true}, replies(`{"action":"accept"}`), true, "WAITING_FOR_USER"},
	} {
		for _, doc := range []string{gatedDoc, strings.Replace(gatedDoc, `"approval_mode":"user"`, `"approval_mode":"user","sampling":{"user":"{\"ok\":true}?"}`, 1)} {
			t.Run(fmt.Sprintf("%s, prompt %v", name, doc != gatedDoc), func(t *testing.T) {
				w := newWorld(t, func(o *choices) {
					o.How = allWays
					if tc.page {
						hasPage(o)
					}
				})
				w.caller.Client = tc.client
				trail := w.follow(w.begin(w.mint(doc)[0]), tc.reply)
				last := trail[len(trail)-1]
				if last.ErrorCode != tc.end || tc.end == "" && last.NextCall.Tool != api.ToolAttest {
					t.Errorf("the last reply is %q: %s", last.ErrorCode, last.Message)
				}
				for _, r := range trail {
					if r.RetryCount != nil && *r.RetryCount > 0 || strings.Contains(r.Message, "submitted before approval") {
						t.Errorf("a call that a reply gave was counted: %s %s", r.ErrorCode, r.Message)
					}
				}
			})
		}
	}
}
