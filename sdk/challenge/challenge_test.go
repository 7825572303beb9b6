package challenge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/sdk/challenge"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
	"github.com/kairos-mcp/kairos/sdk/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type demand struct {
	Target  string        `json:"target" required:"true" min:"3" doc:"what to look at"`
	Mode    string        `json:"mode" default:"quick" enum:"quick,deep"`
	Within  time.Duration `json:"within" default:"10s" max:"1m"`
	Secret  string        `json:"secret" secret:"true"`
	Options options       `json:"options"`
}

type options struct {
	Tries int `json:"tries" default:"2" min:"1"`
}

type evidence struct {
	Says string   `json:"says" required:"true" doc:"the verdict to come to"`
	Note *string  `json:"note"`
	Tags []string `json:"tags"`
}

type output struct {
	Target string            `json:"target,omitempty"`
	Within float64           `json:"within,omitempty"`
	Key    string            `json:"key,omitempty"`
	By     driver.Provenance `json:"by,omitempty"`
	Any    json.RawMessage   `json:"any,omitempty"`
}

type config struct {
	Strict bool `json:"strict" default:"true"`
}

var errBroken = errors.New("out of order")

// told comes to the verdict that the evidence names.
func told(ctx context.Context, d demand, e evidence) challenge.Verdict {
	switch e.Says {
	case "yes":
		return challenge.Accept(output{Target: d.Target, Within: d.Within.Seconds()})
	case "plain yes":
		return challenge.Accept(nil)
	case "seen":
		return challenge.Observe(nil)
	case "unsayable":
		return challenge.Accept(output{Any: json.RawMessage("{")})
	case "other type":
		return challenge.Accept(d)
	case "no":
		return challenge.Decline("the person declined")
	case "later":
		return challenge.Unavailable("closed")
	case "soon":
		return challenge.Later("alice was asked", time.Minute)
	case "halfway":
		return challenge.Pending(driver.Pending{Reason: "it runs", Progress: new(0.5)})
	case "lost":
		return challenge.Unknown("the bank does not answer")
	case "same key":
		if req := challenge.RequestOf(ctx); req.Recover {
			return challenge.NotDone("nothing was done for " + req.IdempotencyKey)
		}
		return challenge.Accept(output{Key: challenge.RequestOf(ctx).IdempotencyKey})
	case "broken":
		return challenge.Fail(errBroken)
	case "who":
		answer, _ := challenge.RequestOf(ctx).Answer(challenge.InputID)
		return challenge.Accept(output{By: answer.Provenance})
	case "nothing":
		return challenge.Verdict{}
	}
	return challenge.Reject("NOT_SAID", "Answer yes.")
}

func check(d demand) []driver.Diagnostic {
	if strings.HasPrefix(d.Target, "bad") {
		return []driver.Diagnostic{driver.Problem("/target", "is bad")}
	}
	return nil
}

func definition() driver.Driver {
	return challenge.New("probe", "1.2.3", told, challenge.Options[demand]{
		Ask:      func(d demand) string { return "Look at " + d.Target + "." },
		Check:    check,
		Output:   output{},
		Settings: settings.New[config](),
	})
}

const sound = `{"type":"probe","probe":{"target":"door"}}`

func request(challenge, value string, by driver.Provenance) driver.AdvanceRequest {
	req := driver.AdvanceRequest{Challenge: json.RawMessage(challenge), Step: driver.Step{Text: "## Look\n\nLook twice."}}
	if value != "" {
		req.Answers = []driver.Answer{{InputID: "evidence", Value: json.RawMessage(value), Provenance: by}}
	}
	return req
}

func TestAJudgeSeesItsIdempotencyKeyAndWhetherToRecover(t *testing.T) {
	d := challenge.New("probe", "1.2.3", told, challenge.Options[demand]{Effect: driver.EffectChanges, Recovers: true, Output: output{}})
	if !d.Descriptor.Has(driver.FeatureRecover) {
		t.Errorf("features = %v, want %s", d.Descriptor.Features, driver.FeatureRecover)
	}
	req := request(sound, `{"says":"same key"}`, driver.AgentReported)
	req.IdempotencyKey = "k1"
	acted, err := d.Challenge.Advance(t.Context(), req)
	if err != nil || acted.Accepted == nil || string(acted.Accepted.Output) != `{"key":"k1"}` {
		t.Errorf("Advance = %+v, %v, want the key as output", acted, err)
	}
	req.Recover = true
	recovered, err := d.Challenge.Advance(t.Context(), req)
	if diff := cmp.Diff(driver.AdvanceNotDone("nothing was done for k1"), recovered); diff != "" || err != nil {
		t.Errorf("Advance with recover: %v (-want +got):\n%s", err, diff)
	}
}

func TestChallengeIsJudgedAtMintTime(t *testing.T) {
	for name, tc := range map[string]struct{ challenge, says, normal string }{
		"defaults": {sound, "", `{"probe":{"mode":"quick","options":{"tries":2},"target":"door","within":"10s"},"type":"probe"}`},
		"kept": {
			`{"required":false,"probe":{"target":"door","mode":"deep","within":"5s","options":{"tries":9},"secret":"s"}}`, "",
			`{"probe":{"mode":"deep","options":{"tries":9},"secret":"s","target":"door","within":"5s"},"required":false,"type":"probe"}`,
		},
		"template":         {`{"probe":{"target":"{{ input.t }}"}}`, "", `{"probe":{"mode":"quick","options":{"tries":2},"target":"{{ input.t }}","within":"10s"},"type":"probe"}`},
		"template in enum": {`{"probe":{"target":"door","mode":"{{ input.m }}","within":"{{ input.w }}"}}`, "", `{"probe":{"mode":"{{ input.m }}","options":{"tries":2},"target":"door","within":"{{ input.w }}"},"type":"probe"}`},
		"nothing":          {`{"type":"probe"}`, "/probe/target: is missing", ""},
		"short":            {`{"probe":{"target":"x"}}`, "/probe/target: must have at least 3 characters, not 1", ""},
		"stray":            {`{"probe":{"target":"door","modus":"deep"}}`, `/probe/modus: unknown key "modus"; known: target, mode, within, secret, options`, ""},
		"checked":          {`{"probe":{"target":"bad door"}}`, "/probe/target: is bad", ""},
		"no object":        {`{"probe":["door"]}`, "/probe: must be an object, not a list", ""},
		"twice":            {`{"probe":{"target":"door"},"probe":{"target":"gate"}}`, `the key "probe" occurs twice in one object`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := definition().Challenge.Validate(t.Context(), driver.ValidateRequest{Challenge: json.RawMessage(tc.challenge)})
			if err != nil || fields.Text(res.Diagnostics) != tc.says {
				t.Fatalf("Validate says %q, %v, want %q", fields.Text(res.Diagnostics), err, tc.says)
			}
			if diff := cmp.Diff(tc.normal, string(res.Challenge)); diff != "" {
				t.Errorf("normal form (-want +got):\n%s", diff)
			}
			if want := []driver.Template{{Pointer: "/probe", Escaping: driver.EscapeText}}; !cmp.Equal(want, res.Templates) {
				t.Errorf("Templates = %v, want %v", res.Templates, want)
			}
		})
	}
}

func TestQuestionTellsAllThatIsNeeded(t *testing.T) {
	res, err := definition().Challenge.Advance(t.Context(), request(`{"probe":{"target":"door","secret":"4711"}}`, "", ""))
	if err != nil || len(res.NeedInput) != 1 {
		t.Fatalf("Advance = %+v, %v, want one input", res, err)
	}
	in := res.NeedInput[0]
	const asked = "Look at door.\n\nSubmit as evidence:\n- says (string): the verdict to come to\n- note (string, optional)\n- tags (list: string, optional)"
	if in.Description != asked || in.User != asked+"\n\nThe step:\n## Look\n\nLook twice." || in.System == "" {
		t.Errorf("the question is %q, %q, %q", in.Description, in.User, in.System)
	}
	if got, want := string(in.Display), `{"mode":"quick","options":{"tries":2},"target":"door","within":"10s"}`; got != want {
		t.Errorf("Display = %s, want %s", got, want)
	}
	if found := schema.Validate(in.Schema, json.RawMessage(`{"says":"yes","tags":["a"]}`)); found != nil {
		t.Errorf("the schema %s refuses evidence: %s", in.Schema, fields.Text(found))
	}
	if found := schema.Validate(in.Schema, json.RawMessage(`{"tags":["a"]}`)); found == nil {
		t.Errorf("the schema %s requires nothing", in.Schema)
	}
}

func TestQuestionCanBeChanged(t *testing.T) {
	d := challenge.New("probe", "1.0.0", told, challenge.Options[demand]{
		Question: func(in *driver.Input, d demand, step driver.Step) {
			in.User, in.Person = d.Target+" "+step.Label, true
		},
		Effect: driver.EffectReads, Approval: driver.ApprovalUser,
	})
	req := request(sound, "", "")
	req.Step.Label = "front"
	res, err := d.Challenge.Advance(t.Context(), req)
	if err != nil || len(res.NeedInput) != 1 || res.NeedInput[0].User != "door front" || !res.NeedInput[0].Person {
		t.Errorf("Advance = %+v, %v, want the changed question", res, err)
	}
	if d.Descriptor.Effect != driver.EffectReads || d.Descriptor.Approval != driver.ApprovalUser || d.Descriptor.ConfigSchema != nil {
		t.Errorf("Descriptor = %+v", d.Descriptor)
	}
}

func TestVerdictsReachTheHost(t *testing.T) {
	const by = driver.AgentReported
	for name, tc := range map[string]struct {
		value string
		by    driver.Provenance
		want  driver.AdvanceResult
		fails string
	}{
		"accept": {value: `{"says":"yes"}`, by: by, want: driver.Accept(proof(`{"says":"yes"}`), json.RawMessage(`{"target":"door","within":10}`))},
		"plain":  {value: `{"says":"plain yes"}`, by: by, want: driver.Accept(proof(`{"says":"plain yes"}`), json.RawMessage(`{"says":"plain yes"}`))},
		"seen":   {value: `{"says":"seen"}`, by: by, fails: "the judge observed, and a pure driver looks at nothing: set Options.Effect"},
		"reject": {value: `{"says":"maybe"}`, by: by, want: driver.Reject("NOT_SAID", "Answer yes.")},
		"soon":   {value: `{"says":"soon"}`, by: by, want: driver.AdvanceLater("alice was asked", time.Minute)},
		"halfway": {
			value: `{"says":"halfway"}`, by: by,
			want: driver.AdvanceResult{Pending: &driver.Pending{Reason: "it runs", Progress: new(0.5)}},
		},
		"lost":  {value: `{"says":"lost"}`, by: by, want: driver.AdvanceUnknown("the bank does not answer")},
		"later": {value: `{"says":"later"}`, by: by, want: driver.CannotAdvance("closed")},
		"no":    {value: `{"says":"no"}`, by: by, want: driver.Decline("the person declined")},
		"who":   {value: `{"says":"who"}`, by: driver.ModelGenerated, want: driver.Accept(proof(`{"says":"who"}`), json.RawMessage(`{"by":"model-generated"}`))},
		"agents write more": {
			value: `{"says":"plain yes","note":null,"mood":"good"}`, by: by,
			want: driver.Accept(proof(`{"says":"plain yes"}`), json.RawMessage(`{"says":"plain yes"}`)),
		},
		"broken":     {value: `{"says":"broken"}`, by: by, fails: "out of order"},
		"nothing":    {value: `{"says":"nothing"}`, by: by, fails: "no verdict"},
		"unsayable":  {value: `{"says":"unsayable"}`, by: by, fails: "encode the output"},
		"undeclared": {value: `{"says":"other type"}`, by: by, fails: "gives a challenge_test.demand as output, and Options.Output declares challenge_test.output"},
		"left out":   {value: `{}`, by: by, want: incomplete("/evidence/says: is missing")},
		"other type": {value: `"yes"`, by: by, want: incomplete("/evidence: must be an object, not a string")},
		"models must keep to it": {
			value: `{"says":"yes","mood":"good"}`, by: driver.ModelGenerated,
			want: incomplete(`/evidence/mood: unknown key "mood"; known: says, note, tags`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := definition().Challenge.Advance(t.Context(), request(sound, tc.value, tc.by))
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("Advance = %+v, %v, want an error with %q", got, err, tc.fails)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("Advance: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func proof(evidence string) json.RawMessage {
	return json.RawMessage(`{"evidence":` + evidence +
		`,"probe":{"mode":"quick","options":{"tries":2},"target":"door","within":"10s"},"type":"probe"}`)
}

func incomplete(problem string) driver.AdvanceResult {
	return driver.Reject("MISSING_FIELD", "Solution incomplete: "+problem+". Submit evidence as it really is; do not make it up. "+
		"Look at door.\n\nSubmit as evidence:\n- says (string): the verdict to come to\n- note (string, optional)\n- tags (list: string, optional)")
}

func TestFilledInTemplatesAreHeldToTheBounds(t *testing.T) {
	for _, c := range []string{`{"probe":{"target":"x"}}`, `{"probe":{"target":"bad door"}}`, `{"probe":{"target":"{{"}}`} {
		res, err := definition().Challenge.Advance(t.Context(), request(c, `{"says":"yes"}`, driver.AgentReported))
		if err != nil || res.Unavailable == nil {
			t.Errorf("Advance(%s) = %+v, %v, want unavailable", c, res, err)
		}
	}
}

func TestContract(t *testing.T) {
	advance := func(value string) driver.AdvanceRequest { return request(sound, value, driver.AgentReported) }
	drivertest.Run(t, definition(),
		drivertest.Sample{Name: "valid", Request: driver.ValidateRequest{Challenge: json.RawMessage(sound)}, Want: drivertest.Valid},
		drivertest.Sample{Name: "invalid", Request: driver.ValidateRequest{Challenge: json.RawMessage(`{"probe":7}`)}, Want: drivertest.Invalid},
		drivertest.Sample{Name: "ask", Request: advance(""), Want: drivertest.NeedInput},
		drivertest.Sample{Name: "yes", Request: advance(`{"says":"yes"}`), Want: drivertest.Accepted},
		drivertest.Sample{Name: "no", Request: advance(`{"says":"no"}`), Want: drivertest.Declined},
		drivertest.Sample{Name: "maybe", Request: advance(`{"says":"maybe"}`), Want: drivertest.Rejected},
		drivertest.Sample{Name: "later", Request: advance(`{"says":"later"}`), Want: drivertest.Unavailable},
	)
}

func TestTheDescriptorHasTheSchemasOfTheStructs(t *testing.T) {
	type demand struct {
		Want json.RawMessage   `json:"want" required:"true"`
		Any  []json.RawMessage `json:"any"`
	}
	type evidence struct {
		Got  json.RawMessage `json:"got"`
		Took time.Duration   `json:"took" default:"1s"`
		Note *string         `json:"note"`
	}
	same := func(_ context.Context, d demand, e evidence) challenge.Verdict {
		if string(e.Got) != string(d.Want) {
			return challenge.Reject("OTHER", fmt.Sprintf("%s is not %s", e.Got, d.Want))
		}
		return challenge.Accept(nil)
	}
	d := challenge.New("same", "1.0.0", same, challenge.Options[demand]{})
	if diff := cmp.Diff(`{"type":"object","properties":{"want":{},"any":{"type":"array","items":{}}},"required":["want"],"additionalProperties":false}`,
		string(d.Descriptor.ParamsSchema)); diff != "" {
		t.Errorf("params (-want +got):\n%s", diff)
	}
	if got := definition().Descriptor.OutputSchema; !strings.Contains(string(got), `"within":{"type":"number"}`) || !strings.Contains(string(got), `"additionalProperties":false`) {
		t.Errorf("the schema of the output is %s, want that of Options.Output", got)
	}
	for _, value := range []string{`{"a":[1,"x"]}`, `null`, `"text"`, `[]`, `1e3`, `true`} {
		req := request(`{"type":"same","same":{"want":`+value+`,"any":[1,"x",null]}}`, `{"got":`+value+`,"took":"2s"}`, driver.ServerObserved)
		got, err := d.Challenge.Advance(t.Context(), req)
		if want := `{"got":` + value + `,"took":"2s"}`; err != nil || got.Accepted == nil || string(got.Accepted.Output) != want {
			t.Errorf("a demand of %s: %+v, %v, want output %s", value, got, err, want)
		}
		valid, err := d.Challenge.Validate(t.Context(), driver.ValidateRequest{Challenge: req.Challenge})
		if err != nil || len(valid.Diagnostics) > 0 || !strings.Contains(string(valid.Challenge), `"want":`+value) {
			t.Errorf("a demand of %s is stored as %s (%v), %v", value, valid.Challenge, valid.Diagnostics, err)
		}
	}
}

// TestNearMisses: a type that is almost right is refused when the driver is built.
func TestNearMisses(t *testing.T) {
	for want, build := range map[string]func(){
		"has no judge": func() { challenge.New[demand, evidence]("probe", "1.0.0", nil, challenge.Options[demand]{}) },
		"reads JSON in its own way": func() {
			challenge.New("probe", "1.0.0", func(context.Context, demand, struct {
				At time.Time `json:"at"`
			}) challenge.Verdict {
				return challenge.Accept(nil)
			}, challenge.Options[demand]{})
		},
		"has no JSON Schema": func() {
			challenge.New("probe", "1.0.0", told, challenge.Options[demand]{Output: func() {}})
		},
		"is not a struct": func() {
			challenge.New("probe", "1.0.0", func(context.Context, string, evidence) challenge.Verdict {
				return challenge.Accept(nil)
			}, challenge.Options[string]{})
		},
	} {
		t.Run(want, func(t *testing.T) {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, want) {
					t.Errorf("New panics with %q, want %q", got, want)
				}
			}()
			build()
		})
	}
}

// The smallest useful driver is a whole program of at most 40 lines.
func TestSmallestDriverIsSmallAndWhole(t *testing.T) {
	source, err := os.ReadFile("testdata/keyword/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), "\n"); n > 40 {
		t.Errorf("testdata/keyword/main.go has %d lines, at most 40 are promised", n)
	}
	program := filepath.Join(t.TempDir(), "kairos-driver-keyword")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/keyword").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program, "--describe").Output()
	if err != nil {
		t.Fatal(err)
	}
	var d driver.Descriptor
	if err := json.Unmarshal(out, &d); err != nil || d.Name != "keyword" || d.Role != driver.RoleChallenge || d.Effect != driver.EffectPure {
		t.Errorf("--describe = %s, %v", out, err)
	}
	client := driverrpc.NewExecClient(func(ctx context.Context, method string, request []byte) ([]byte, error) {
		cmd := exec.CommandContext(ctx, program, driverrpc.CallFlag, method)
		cmd.Stdin = bytes.NewReader(request)
		return cmd.Output()
	})
	keyword := `{"type":"keyword","keyword":{"words":["key","rollback"]}}`
	subject := drivertest.Subject{Descriptor: d, Challenge: client.Challenge(), Configurer: client, Samples: []drivertest.Sample{
		{Name: "valid", Request: driver.ValidateRequest{Challenge: json.RawMessage(keyword)}, Want: drivertest.Valid},
		{Name: "no words", Request: driver.ValidateRequest{Challenge: json.RawMessage(`{"keyword":{"words":[]}}`)}, Want: drivertest.Invalid},
		{Name: "ask", Request: request(keyword, "", ""), Want: drivertest.NeedInput},
		{Name: "all", Request: request(keyword, `{"text":"New key; no Rollback."}`, driver.AgentReported), Want: drivertest.Accepted},
		{Name: "one", Request: request(keyword, `{"text":"New key."}`, driver.AgentReported), Want: drivertest.Rejected},
	}}
	// Each call is a process here; TestContract makes the other checks.
	report, err := drivertest.Verify(t.Context(), subject, drivertest.Options{Only: []string{"sample/outcome", "call/sound-result", "call/says-why"}})
	if err != nil {
		t.Fatal(err)
	}
	if report.Count(drivertest.Passed) != 3 {
		t.Errorf("the report is %+v", report.Results)
	}
}

func FuzzAdvance(f *testing.F) {
	f.Add([]byte(sound), []byte(`{"says":"yes"}`))
	f.Add([]byte(`{"probe":{"target":"{{ a }}"}}`), []byte(`{"says":"plain yes","note":null}`))
	d := definition()
	f.Fuzz(func(t *testing.T, c, value []byte) {
		res, err := d.Challenge.Advance(t.Context(), request(string(c), string(value)+" ", driver.AgentReported))
		if err == nil && res.Accepted != nil && (!json.Valid(res.Accepted.Proof) || !json.Valid(res.Accepted.Output)) {
			t.Errorf("Advance(%s, %s) = %+v", c, value, res.Accepted)
		}
	})
}
