package run_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const herring = "herring"

// fillIn sets every field of v that can hold a text, whoever added it.
func fillIn(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(herring)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`"` + herring + `"`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillIn(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillIn(key)
		fillIn(value)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() != reflect.TypeFor[time.Time]() && v.Field(i).CanSet() {
				fillIn(v.Field(i))
			}
		}
	}
}

// speaking lists the fields that hold the text, as a path of their JSON names.
func speaking(t *testing.T, v any) []string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(b, &decoded); err != nil {
		t.Fatal(err)
	}
	var out []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, member := range v {
				walk(path+"."+key, member)
			}
		case []any:
			for _, element := range v {
				walk(path, element)
			}
		case string:
			if strings.Contains(v, herring) {
				out = append(out, strings.TrimPrefix(path, "."))
			}
		}
	}
	walk("", decoded)
	slices.Sort(out)
	return slices.Compact(out)
}

// of are the names with a prefix.
func of(prefix string, names ...string) []string {
	for i := range names {
		names[i] = prefix + names[i]
	}
	return names
}

func TestARedactedEventSaysOnlyWhatIsNamed(t *testing.T) {
	var e run.Event
	fillIn(reflect.ValueOf(&e).Elem())
	e.Step = 1
	names := []string{"approval.by", "approval.name", "approval.votes.as", "approval.votes.by", "approval.votes.name"}
	unnamed := func(path string) bool { return slices.Contains(names, path) }
	proof, approval := speaking(t, map[string]any{"proof": e.Proof}), slices.DeleteFunc(speaking(t, map[string]any{"approval": e.Approval}), unnamed)
	answer := []string{"input_id", "model", "provenance", "stop_reason", "via"}
	want := slices.Concat(
		proof, approval, of("evidence.", slices.Clone(approval)...),
		of("answer.", slices.Clone(answer)...), of("evidence.answers.", slices.Clone(answer)...), of("attempt.", "input", "outcome", "via"), of("evidence.permission.", "by", "driver", "effect", "acceptance", "plan"), of("plan.", "by", "driver", "effect", "acceptance"), of("call.", "driver", "input", "key"),
		of("vote.", "digest", "phrase", "visit.from"), of("inputs.", "id", "kind", "type"), of("question.", "input.id", "input.kind", "input.type", "digest", "via"),
		speaking(t, map[string]any{"question": map[string]any{"client": e.Question.Client, "driver": e.Question.Driver}}),
		of("owner.", "from", "principal", "space", "pin"),
		[]string{"kind", "run", "digest", "input", "via", "visit.from", "nonce", "connection", "code", "outcome", "solves"},
		of("evidence.tries.", "failed.first.code", "failed.first.via", "failed.last.code", "failed.last.via", "observed.first.code", "observed.first.via", "observed.last.code", "observed.last.via"),
	)
	slices.Sort(want)
	for name, d := range map[string]run.Redaction{"its step": {Steps: []int{1}}, "the run": {Whole: true}} {
		if diff := cmp.Diff(want, speaking(t, d.Redacted(e, e.At))); diff != "" {
			t.Errorf("redacting %s leaves (-want +got):\n%s", name, diff)
		}
	}
	quoting := run.Redaction{Steps: []int{2}, Quoting: []int{1}}.Redacted(e, e.At)
	if quoting.Reason != "" || quoting.Question.Input.Description != "" || quoting.Inputs[0].User != "" || len(quoting.Walk)+len(quoting.Facts) > 0 ||
		quoting.Evidence.Erased() || len(quoting.Answer.Value) == 0 || quoting.Approval.By != herring || quoting.Vote.By != herring || quoting.By != herring {
		t.Errorf("of a step that quotes is left %+v, want its own answers and no questions", quoting)
	}
	if diff := cmp.Diff(e, run.Redaction{Steps: []int{2}}.Redacted(e, e.At)); diff != "" {
		t.Errorf("redacting another step changes (-want +got):\n%s", diff)
	}
	e.Kind = run.Redacted
	if diff := cmp.Diff(e, run.Redaction{Whole: true}.Redacted(e, e.At)); diff != "" {
		t.Errorf("redacting what says that a run was redacted changes (-want +got):\n%s", diff)
	}
}

// solved is a run with its first step solved.
func solved(t *testing.T, steps int) run.Run {
	r := newRun("r1", steps)
	r.Input, r.Roots = json.RawMessage(`{"who":"herring"}`), []string{"/herring"}
	supply := supplies("agent")
	supply.Answer.Value = json.RawMessage(`"herring"`)
	r = must(t, must(t, r, needs(false)), supply)
	accept := accepts(t, r, "n1")
	return must(t, r, accept)
}

func TestRedactionErasesValuesAndKeepsTheChain(t *testing.T) {
	live := solved(t, 2)
	refuses(t, live, run.Event{Kind: run.Redacted, Redaction: &run.Redaction{Whole: true}}, run.ErrImpossible)
	refuses(t, live, run.Event{Kind: run.Redacted, Redaction: &run.Redaction{Steps: []int{2}}}, run.ErrImpossible)
	refuses(t, live, run.Event{Kind: run.Redacted, Redaction: &run.Redaction{}}, run.ErrImpossible)
	refuses(t, live, run.Event{Kind: run.Redacted}, run.ErrImpossible)

	one := must(t, live, run.Event{Kind: run.Redacted, Redaction: &run.Redaction{Steps: []int{1}}})
	if err := one.Verify(); err != nil || !one.Evidence[0].Erased() || one.State != run.Open || one.Step.Nonce != "n1" || one.Input == nil {
		t.Errorf("after redacting step 1: Verify = %v, evidence %+v, state %s, want a whole chain without evidence that can continue", err, one.Evidence[0], one.State)
	}
	if diff := cmp.Diff([]driver.Answer{{InputID: "evidence", Via: "agent"}}, one.Evidence[0].Answers); diff != "" {
		t.Errorf("who answered (-want +got):\n%s", diff)
	}
	changed := *one.Proofs[0]
	changed.EvidenceDigest = "changed"
	one.Proofs = []*run.Proof{&changed}
	if one.Verify() == nil {
		t.Error("a changed digest of erased evidence verifies")
	}

	working := must(t, must(t, live, needs(false)), supplies("agent"))
	for _, end := range []run.Event{{Kind: run.Attested, Outcome: "failure"}, {Kind: run.Abandoned, Reason: "x"}} {
		whole := must(t, must(t, working, end), run.Event{Kind: run.Redacted, Redaction: &run.Redaction{Steps: []int{1}, Whole: true}})
		if said := speaking(t, whole); len(said) > 0 || len(whole.Step.Answers) > 0 || whole.Verify() != nil || whole.State.Live() {
			t.Errorf("after redacting a run that was %s: %v say it, step %+v, Verify = %v", end.Kind, said, whole.Step, whole.Verify())
		}
	}
}

// What was approved is erased with who approved it: how many they were and for which groups stays.
func TestRedactionErasesWhoApproved(t *testing.T) {
	votes := []run.Vote{
		{By: "user:acme:ada", Name: "Ada", As: []string{"group:acme:release", "user:acme:ada"}, Digest: "d"}, {By: "user:acme:bob", Name: "Bob", As: []string{"group:acme:release"}, Digest: "d"},
	}
	a := run.Approval{Digest: "d", By: "user:acme:bob", Name: "Bob", Votes: votes}
	if people := a.People(); people != `user:acme:ada "Ada", user:acme:bob "Bob"` {
		t.Errorf("People() = %s", people)
	}
	events := []run.Event{
		{Kind: run.PartlyApproved, Step: 1, Vote: &votes[0]}, {Kind: run.Answered, Step: 1, Approval: &a, By: "user:acme:bob", Name: "Bob"},
		{Kind: run.Accepted, Step: 1, Evidence: &run.Evidence{Approval: &a, Proof: json.RawMessage(`{}`)}}, {Kind: run.Decided, Step: 1, Decision: &run.Decision{Happened: true, By: "Bob, as principal user:acme:bob over REST"}},
	}
	for i, e := range events {
		events[i] = run.Redaction{Steps: []int{1}}.Redacted(e, e.At)
	}
	b, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"ada", "bob", "Ada", "Bob"} {
		if strings.Contains(string(b), who) {
			t.Errorf("after the redaction %q is named: %s", who, b)
		}
	}
	left := events[1].Approval
	if left.People() != "redacted, redacted" || left.Votes[0].As[0] != "group:acme:release" || left.Votes[0].As[1] != "redacted" || events[1].By != "redacted" {
		t.Errorf("of the approval is left %+v", left)
	}
	if a.Votes[0].By != "user:acme:ada" || a.Votes[0].As[1] != "user:acme:ada" {
		t.Errorf("the approval itself was changed: %+v", a)
	}
}
