package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// scripted is a challenge driver whose verdicts on evidence are played from a
// list; the last one stays. It keeps what it was asked.
type scripted struct {
	mu    sync.Mutex // guards the fields below
	plays []func(driver.AdvanceRequest) (driver.AdvanceResult, error)
	asked []driver.AdvanceRequest
}

func (*scripted) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{}, nil
}

func (s *scripted) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	if _, ok := req.Answer("evidence"); !ok {
		return driver.Need(driver.Input{
			ID: "evidence", Kind: driver.KindEvidence, Type: "user_input", Person: true, Description: "say it", Schema: json.RawMessage(`{"type":"object"}`),
		}), nil
	}
	s.mu.Lock()
	s.asked = append(s.asked, req)
	play := s.plays[0]
	if len(s.plays) > 1 {
		s.plays = s.plays[1:]
	}
	s.mu.Unlock()
	return play(req)
}

func (s *scripted) requests() []driver.AdvanceRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

type advance = func(driver.AdvanceRequest) (driver.AdvanceResult, error)

func gives(res driver.AdvanceResult) advance {
	return func(driver.AdvanceRequest) (driver.AdvanceResult, error) { return res, nil }
}

func breaks(why string) advance {
	return func(driver.AdvanceRequest) (driver.AdvanceResult, error) {
		return driver.AdvanceResult{}, errors.New(why)
	}
}

var accepts = gives(driver.Accept(json.RawMessage(`{"done":true}`), nil))

// withScript opens a run of a step that is judged by the script.
func (w *world) withScript(effect driver.Effect, features []string, plays ...advance) (s *scripted, uri string, r *api.StepReply) {
	w.t.Helper()
	s = &scripted{plays: plays}
	desc := descriptors["user_input"]
	desc.Effect, desc.Features = effect, features
	w.setups.replace(w.setupOf(map[string]driver.Challenge{"user_input": s}, desc))
	uri = w.mint(stagedStep)[0]
	return s, uri, w.begin(uri)
}

var recovers = []string{driver.FeatureRecover}

func TestAPendingVerdictIsWaitedFor(t *testing.T) {
	w := newWorld(t, nil)
	later := driver.AdvanceLater("the build is running", 30*time.Second)
	later.Pending.Progress, later.Pending.Message = new(0.25), "Step 2 of 8."
	s, uri, r := w.withScript(driver.EffectReads, nil, gives(later), accepts)
	round := w.nextRound(uri, solve(r, `{"ok":true}`))
	got := w.reply(round)
	w.code(got, "WAITING_FOR_DRIVER")
	if !got.MustObey || *got.RetryCount != 0 || got.NextCall == nil || round.Later == nil || round.Later.After > 30*time.Second {
		t.Errorf("reply = %+v with %+v, want a wait that counts nothing and says how to continue", got, round.Later)
	}
	if *got.RetryAfter <= 29 || *got.RetryAfter > 30 || *got.Progress != 0.25 || got.ProgressMessage != "Step 2 of 8." {
		t.Errorf("reply = %+v, want the driver's own words in fields", got)
	}
	contains(t, got.Message, "the build is running", "Step 2 of 8.", "25 %")
	w.machine.Pass(10 * time.Second)
	told := w.caller
	told.Detached = true
	now, err := w.Retried(t.Context(), told, *round.Later)
	if err != nil || now.Later != nil || now.Reply == nil || *now.Reply.RetryAfter > 20 {
		t.Errorf("10 s later a caller that cannot wait is told %+v, %v, want the rest of the wait", now, err)
	}
	w.code(w.reply(w.nextRound(uri, placeholder(got))), "WAITING_FOR_DRIVER")
	if n := len(s.requests()); n != 1 {
		t.Errorf("the driver was asked %d times before it wanted to be, want once", n)
	}
	w.machine.Pass(time.Minute)
	w.Engine = w.another() // the server was restarted meanwhile
	end := w.reply(w.nextRound(uri, placeholder(got)))
	w.code(end, "")
	if end.RetryAfter != nil || end.Progress != nil || end.ProgressMessage != "" {
		t.Errorf("reply = %+v, want no more word of the wait", end)
	}
	if asked := s.requests(); len(vouchers(end)) != 1 || len(asked) != 2 || asked[0].IdempotencyKey == "" || !cmp.Equal(asked[0], asked[1]) {
		t.Errorf("solved %+v after %+v, want the same call twice", end.Solved, asked)
	}
}

// scripting is a world for scenes of a step that is judged by the script.
func scripting(effect driver.Effect, features []string, plays ...advance) func(*testing.T) *world {
	return func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, nil)
		desc := descriptors["user_input"]
		desc.Effect, desc.Features = effect, features
		w.setups.replace(w.setupOf(map[string]driver.Challenge{"user_input": &scripted{plays: plays}}, desc))
		return w
	}
}

// wasAsked checks how often the driver of a script was called.
func wasAsked(n int) move {
	return func(p *play) {
		p.t.Helper()
		if got := len(p.catalog.challenges["user_input"].(*scripted).requests()); got != n {
			p.t.Errorf("the driver was called %d times, want %d", got, n)
		}
	}
}

func TestCallsOfDrivers(t *testing.T) {
	const put = "what this call sent was not used"
	resumes := func(p *play) {
		r, err := p.Begin(p.t.Context(), p.caller, api.BeginRequest{URI: p.uri, SessionID: p.shown.RunID})
		if err != nil {
			p.t.Fatal(err)
		}
		p.took(r)
	}
	away := func(driver.AdvanceRequest) (driver.AdvanceResult, error) { return driver.AdvanceResult{}, unreached{} }
	later := gives(driver.AdvanceLater("running", time.Hour))
	scenes(t, map[string]scene{
		"while one is waited for nothing else is tried": {doc: stagedStep, world: scripting(driver.EffectReads, nil, later), moves: []move{
			sends(works, "WAITING_FOR_DRIVER"), sends(works, "WAITING_FOR_DRIVER", "not counted"), counted(0), resumes, begun("WAITING_FOR_DRIVER"),
			passes(2 * 24 * time.Hour), calls("WAITING_FOR_DRIVER"), // nobody touched its first step for two days
		}},
		// An agent that sends other evidence after the driver failed learns which one the verdict is about.
		"evidence that waits for its verdict is the one that is judged": {doc: stagedStep, world: scripting(driver.EffectPure, nil, breaks("down"), accepts), moves: []move{
			sends(`{"said":"first"}`, "DRIVER_UNAVAILABLE", "not: "+put), sends(`{"said":"second"}`, "", put), solved(driver.AgentReported),
		}},
		"a pure driver must not answer pending": {doc: stagedStep, world: scripting(driver.EffectPure, nil, gives(driver.AdvanceLater("later", 0))), moves: []move{
			sends(works, "DRIVER_UNAVAILABLE", "breaks the contract: it is pure and answers pending"),
		}},
		"one that was not reached is called later": {doc: stagedStep, world: scripting(driver.EffectChanges, nil, away, accepts), moves: []move{
			sends(works, "DRIVER_UNAVAILABLE"), calls(""), wasAsked(2),
		}},
		"one without the feature is not cancelled": {doc: stagedStep, world: scripting(driver.EffectReads, nil, later), moves: []move{
			sends(works, "WAITING_FOR_DRIVER", "not: cancel"), func(p *play) { p.code(p.cancels(p.uri, p.shown), "INVALID_ARGUMENT") }, wasAsked(1),
		}},
	})
}

func TestACallThatWasLostIsAskedAboutAndNotRepeated(t *testing.T) {
	w := newWorld(t, nil)
	s, uri, r := w.withScript(driver.EffectChanges, recovers, breaks("it did not answer within 10s"), breaks("it did not answer within 10s"), accepts)
	got := w.reply(w.nextRound(uri, solve(r, `{"ok":true}`)))
	w.code(got, "OUTCOME_UNKNOWN")
	if got.MustObey || *got.RetryCount != 0 || !strings.Contains(got.Message, "may have changed the world") || strings.Contains(got.Message, "othing is lost") {
		t.Errorf("reply = %+v, want what is unknown", got)
	}
	end := w.reply(w.nextRound(uri, placeholder(got)))
	w.code(end, "")
	asked := s.requests()
	if len(asked) != 3 || asked[0].Recover || !asked[1].Recover || !asked[2].Recover {
		t.Fatalf("the driver was asked %+v, want to act once and then what came of it", asked)
	}
	for _, req := range asked {
		if req.IdempotencyKey == "" || req.IdempotencyKey != asked[0].IdempotencyKey || req.Attempt != 1 || strings.Contains(req.IdempotencyKey, r.RunID) {
			t.Errorf("key %q of attempt %d, want one opaque key of the first attempt", req.IdempotencyKey, req.Attempt)
		}
	}
	if len(vouchers(end)) != 1 {
		t.Errorf("solved = %+v, want the step", end.Solved)
	}
}

func TestAnotherAttemptNeedsAKnownOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		plays []advance
		code  string
		keys  int // different ones
	}{
		"not done":             {[]advance{breaks("crash"), gives(driver.AdvanceNotDone("no payment has this key")), accepts}, "", 2},
		"rejected":             {[]advance{gives(driver.Reject("NO", "not enough")), accepts}, "", 2},
		"cannot tell":          {[]advance{gives(driver.AdvanceUnknown("the bank is silent"))}, "OUTCOME_UNKNOWN", 1},
		"does nothing, always": {[]advance{breaks("crash"), gives(driver.AdvanceNotDone("nothing")), breaks("crash"), gives(driver.AdvanceNotDone("nothing"))}, "DRIVER_UNAVAILABLE", 2},
		"unavailable":          {[]advance{gives(driver.CannotAdvance("closed")), accepts}, "", 2},
		"pending":              {[]advance{gives(driver.AdvanceLater("running", time.Millisecond)), accepts}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			s, uri, r := w.withScript(driver.EffectChanges, recovers, tc.plays...)
			got := w.reply(w.nextRound(uri, solve(r, `{"ok":true}`)))
			w.machine.Pass(time.Minute)
			if got.ErrorCode != "" && tc.code == "" {
				solution := placeholder(got)
				if *got.RetryCount > 0 {
					solution = solve(got, `{"ok":true}`)
				}
				got = w.reply(w.nextRound(uri, solution))
			}
			w.code(got, tc.code)
			keys := map[string]bool{}
			for _, req := range s.requests() {
				keys[fmt.Sprint(req.IdempotencyKey, req.Attempt)] = true
			}
			if len(keys) != tc.keys {
				t.Errorf("%d different keys in %+v, want %d", len(keys), s.requests(), tc.keys)
			}
		})
	}
}

func TestWhatADriverCannotTellAPersonDecides(t *testing.T) {
	for name, tc := range map[string]struct {
		happened bool
		acts     int
	}{"it happened": {true, 1}, "it did not happen": {false, 2}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			s, uri, r := w.withScript(driver.EffectChanges, nil, breaks("its process died"), accepts)
			got := w.reply(w.nextRound(uri, solve(r, `{"ok":true}`)))
			w.code(got, "OUTCOME_UNKNOWN")
			w.code(w.reply(w.nextRound(uri, placeholder(got))), "OUTCOME_UNKNOWN")
			if n := len(s.requests()); n != 1 {
				t.Fatalf("the driver was called %d times before anybody decided, want once", n)
			}
			in := director.DecideInput{Run: run.ID(r.RunID), Happened: tc.happened, Result: json.RawMessage(`{"paid":true}`), By: "alice", Reason: "the bank says so"}
			if _, err := w.Decide(t.Context(), w.caller, in); err != nil {
				t.Fatal(err)
			}
			_, err := w.Decide(t.Context(), w.caller, in)
			refused(t, err, fault.InvalidArgument) // there is nothing to decide any more
			w.code(w.reply(w.nextRound(uri, placeholder(got))), "")
			if n := len(s.requests()); n != tc.acts {
				t.Errorf("the driver was called %d times, want %d", n, tc.acts)
			}
			contains(t, fmt.Sprintf("%+v", w.timeline(r).Moments), "outcome_unknown", "its process died", "decided", name+", says alice: the bank says so")
		})
	}
}

type unreached struct{}

func (unreached) Error() string   { return "the breaker is open" }
func (unreached) NotCalled() bool { return true }

// folder is a capability driver that asks through question and answer files,
// named after the key.
type folder struct {
	mu      sync.Mutex // guards the fields below
	asked   []driver.RenderRequest
	answers map[string]string
}

func (f *folder) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, req)
	if a, ok := f.answers[req.IdempotencyKey]; ok {
		return driver.RenderResult{Answer: &driver.Answer{Value: json.RawMessage(a), Provenance: driver.ClientAttested}}, nil
	}
	return driver.RenderLater("alice was asked", time.Minute), nil
}

func (*folder) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("answers come from files"), nil
}

func (f *folder) answer(key, value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.answers == nil {
		f.answers = map[string]string{}
	}
	f.answers[key] = value
}

func (f *folder) last() driver.RenderRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[len(f.asked)-1]
}

// withFolder puts the folder in the place of elicitation.
func (w *world) withFolder(f *folder) (uri string) {
	w.t.Helper()
	desc := descriptors["elicitation"]
	desc.Needs, desc.Effect = nil, driver.EffectReads
	w.describes(desc).capabilities["elicitation"] = f
	w.setups.replace(w.small())
	return w.mint(askStep)[0]
}

func TestOneAnswerSolvesOneRun(t *testing.T) {
	w := newWorld(t, nil)
	f := &folder{}
	uri := w.withFolder(f)
	w.caller.Client = driver.Client{ElicitationForm: true}
	one := w.begin(uri)
	first := w.reply(w.nextRound(uri, placeholder(one)))
	w.code(first, "WAITING_FOR_DRIVER")
	key := f.last().IdempotencyKey
	two := w.begin(uri)
	second := w.reply(w.nextRound(uri, placeholder(two)))
	w.code(second, "WAITING_FOR_DRIVER")
	if other := f.last().IdempotencyKey; key == "" || other == key {
		t.Fatalf("keys of two runs are %q and %q, want two", key, other)
	}
	f.answer(key, `{"confirmation":"approved","ok":true}`)
	w.machine.Pass(2 * time.Minute)
	w.code(w.reply(w.nextRound(uri, placeholder(second))), "WAITING_FOR_DRIVER")
	end := w.reply(w.nextRound(uri, placeholder(first)))
	w.code(end, "")
	if len(vouchers(end)) != 1 || end.Solved[0].Provenance != driver.ClientAttested {
		t.Errorf("solved = %+v, want the run that was answered", end.Solved)
	}
}

func TestTheNextAttemptIsToldWhyTheLastAnswerWasRefused(t *testing.T) {
	w := newWorld(t, nil)
	f := &folder{}
	uri := w.withFolder(f)
	w.caller.Client = driver.Client{ElicitationForm: true}
	r := w.reply(w.nextRound(uri, placeholder(w.begin(uri))))
	asked := f.last()
	f.answer(asked.IdempotencyKey, `{"ok":false}`)
	w.machine.Pass(2 * time.Minute)
	refused := w.reply(w.nextRound(uri, placeholder(r)))
	w.code(refused, "COMMAND_FAILED")
	w.code(w.reply(w.nextRound(uri, placeholder(refused))), "WAITING_FOR_DRIVER")
	got := f.last()
	if got.Attempt != asked.Attempt+1 || got.IdempotencyKey == asked.IdempotencyKey {
		t.Errorf("attempt %d with key %q after attempt %d with key %q, want another one", got.Attempt, got.IdempotencyKey, asked.Attempt, asked.IdempotencyKey)
	}
	if want := []driver.Diagnostic{driver.Problem("", "COMMAND_FAILED: it is not ok")}; !cmp.Equal(want, got.Diagnostics) {
		t.Errorf("diagnostics = %+v, want %+v", got.Diagnostics, want)
	}
}

var notDone = driver.RenderNotDone("it was stopped before it changed anything")

// slowly opens a run whose step is under way: what the doer does takes time.
func slowly(t *testing.T, ended ...driver.RenderResult) (w *world, d *doer, uri string, r *api.StepReply) {
	t.Helper()
	w, d = withDoer(t, driver.EffectChanges)
	w.slow(ended...)
	uri = w.mint(plainStep)[0]
	open := w.begin(uri)
	w.allow(runOf(open), nil)
	approved := w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(open)), "elicitation/create"), yes))
	r = w.next(uri, placeholder(approved))
	w.code(r, "WAITING_FOR_DRIVER")
	if !strings.Contains(r.NextAction, "cancel true") {
		t.Errorf("next_action = %q, want how to cancel in it", r.NextAction)
	}
	return w, d, uri, r
}

func (w *world) cancels(uri string, r *api.StepReply) *api.StepReply {
	w.t.Helper()
	round, err := w.Next(w.t.Context(), w.caller, api.NextRequest{URI: uri, RunID: r.RunID, Solution: []byte(placeholder(r)), Cancel: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.reply(round)
}

func TestWhatADriverDoesIsCancelled(t *testing.T) {
	w, d, uri, r := slowly(t, notDone)
	got := w.cancels(uri, r)
	w.code(got, "CANCELLED")
	if last := d.asked[len(d.asked)-1]; !last.Cancel || !last.Recover || last.IdempotencyKey != d.asked[0].IdempotencyKey {
		t.Errorf("the driver was asked %+v, want to cancel the call with the same key", last)
	}
	if *got.RetryCount != 0 || !strings.Contains(got.Message, "stopped before it changed") {
		t.Errorf("reply = %+v, want what the driver said, and nothing counted", got)
	}
	again := w.nextRound(uri, placeholder(got))
	if a := w.ask(again, "elicitation/create"); !strings.Contains(string(a.Params), "act on earth") {
		t.Errorf("the question is %s, want the plan approved anew", a.Params)
	}
	if m := w.moment(r, "cancelled"); m.Verdict != "by kairos_next" {
		t.Errorf("it was cancelled %q", m.Verdict)
	}
}

func TestACancelDoesNotHideWhatHappened(t *testing.T) {
	for name, tc := range map[string]struct {
		ended []driver.RenderResult
		want  []string // codes of the cancel and of the calls after it
	}{
		"it had ended":      {[]driver.RenderResult{happenedAlready}, []string{"", ""}},
		"nobody can tell":   {[]driver.RenderResult{driver.RenderUnknown("it was in the middle of it")}, []string{"OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN"}},
		"it takes its time": {[]driver.RenderResult{driver.RenderLater("it ends", time.Second), notDone}, []string{"WAITING_FOR_DRIVER", "CANCELLED"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, d, uri, r := slowly(t, tc.ended...)
			for i, want := range tc.want {
				if i == 0 {
					r = w.cancels(uri, r)
				} else {
					w.machine.Pass(time.Minute)
					r = w.next(uri, placeholder(r))
				}
				w.code(r, want)
			}
			if len(d.did) != 0 {
				t.Errorf("it did %q again", d.did)
			}
			if solved := len(w.state(runOf(r)).Proofs); solved != 0 != (tc.want[0] == "") {
				t.Errorf("%d steps are solved", solved)
			}
		})
	}
}

var happenedAlready = driver.RenderResult{Answer: &driver.Answer{Value: []byte(`{"ok":true}`), Provenance: driver.ServerObserved}}

func TestWhereNothingRunsNothingIsCancelled(t *testing.T) {
	w, d := withDoer(t, driver.EffectChanges)
	uri := w.mint(plainStep)[0]
	open := w.begin(uri)
	got := w.cancels(uri, open)
	if w.code(got, ""); !strings.Contains(got.Message, "nothing to cancel") || got.Challenge.Nonce != open.Challenge.Nonce {
		t.Errorf("reply = %+v, want the open step as it was", got)
	}
	_, err := w.Cancel(t.Context(), w.caller, director.CancelInput{Run: runOf(open), By: "me"})
	refused(t, err, fault.InvalidArgument)
	if len(d.asked) != 0 {
		t.Errorf("the driver was asked %+v", d.asked)
	}
}

func TestAnEndedRunLeavesNothingRunning(t *testing.T) {
	w, d, uri, r := slowly(t, notDone)
	reply, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uri, RunID: r.RunID, Outcome: "failure", Message: "enough"})
	if err != nil || reply.Verified {
		t.Fatalf("Attest = %+v, %v", reply, err)
	}
	if last := d.asked[len(d.asked)-1]; !last.Cancel {
		t.Errorf("the driver was asked %+v, want to cancel", last)
	}
	if s := w.state(runOf(r)).State; s != run.Closed {
		t.Errorf("the run is %s", s)
	}
}

func TestAnAbandonedRunLeavesNothingRunning(t *testing.T) {
	w, d, _, r := slowly(t, notDone)
	elsewhere, id := w.caller, runOf(r)
	elsewhere.Detached = true
	_, err := w.Abandon(t.Context(), elsewhere, id, "enough")
	refused(t, err, fault.InvalidArgument, "kairos runs cancel")
	if s := w.state(id).State; s != run.Waiting {
		t.Errorf("the run is %s, want it to wait still", s)
	}
	if s, err := w.Abandon(t.Context(), w.caller, id, "enough"); err != nil || s.State != run.Ended {
		t.Errorf("Abandon = %+v, %v, want the run, ended", s, err)
	}
	if last := d.asked[len(d.asked)-1]; !last.Cancel {
		t.Errorf("the driver was asked %+v, want to cancel", last)
	}

	w, _, _, r = slowly(t, notDone)
	if _, err := w.Cancel(t.Context(), elsewhere, director.CancelInput{Run: runOf(r), By: "me"}); err != nil {
		t.Fatal(err)
	}
	if s, err := w.Abandon(t.Context(), elsewhere, runOf(r), "enough"); err != nil || s.State != run.Ended {
		t.Errorf("Abandon after the cancel was recorded = %+v, %v, want the run, ended", s, err)
	}
}

// A command has drivers of its own, which know nothing of the call: the server that
// made it tells the driver.
func TestACommandOnlyRecordsThatItCancels(t *testing.T) {
	w, d, uri, r := slowly(t, notDone)
	asked := len(d.asked)
	elsewhere := w.caller
	elsewhere.Detached = true
	reply, err := w.Cancel(t.Context(), elsewhere, director.CancelInput{Run: runOf(r), By: "me"})
	if err != nil || reply.Ended || reply.Driver != "doer" || len(d.asked) != asked {
		t.Fatalf("Cancel = %+v, %v after %d calls", reply, err, len(d.asked)-asked)
	}
	w.code(w.next(uri, placeholder(r)), "CANCELLED") // long before the driver wished to be asked again

	w, d, _, r = slowly(t, notDone)
	if reply, err = w.Cancel(t.Context(), w.caller, director.CancelInput{Run: runOf(r), By: "me"}); err != nil || !reply.Ended || !d.asked[len(d.asked)-1].Cancel {
		t.Errorf("Cancel = %+v, %v, want it ended at once", reply, err)
	}
}
