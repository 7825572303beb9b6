package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/drivers/driverstest"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const threeSteps = driverstest.ThreeSteps

func TestAnAgentWalksAProtocol(t *testing.T) {
	for name, convention := range map[string]func(uris []string, step int) string{
		"uri is the step being solved": func(uris []string, step int) string { return uris[step] },
		"uri is the step after it":     func(uris []string, step int) string { return uris[min(step+1, len(uris)-1)] },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			uris := w.mint(threeSteps)
			r := w.begin(uris[0])
			w.at(r, uris[0])
			if r.Challenge.ProofHash != run.Genesis || len(r.Challenge.Nonce) != 56 {
				t.Errorf("challenge = %+v, want the genesis hash and a nonce of 56 digits", r.Challenge)
			}
			for step := range uris {
				r = w.next(convention(uris, step), solve(r, works))
				w.code(r, "")
				w.at(r, uris[min(step+1, 2)])
				if r.ProofHash == "" || r.ProofHash != r.Challenge.ProofHash {
					t.Errorf("step %d: proof_hash %q, challenge expects %q: want the same, non-empty", step, r.ProofHash, r.Challenge.ProofHash)
				}
			}
			contains(t, r.NextAction, "kairos_attest with "+uris[2])
			a, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uris[2], Outcome: "success", Message: "done"})
			if err != nil || !a.Verified || a.Results[0].QualityBonus != 5 {
				t.Errorf("Attest = %+v, %v, want verified with bonus 5", a, err)
			}
		})
	}
}

func TestWrongSolutionsAreRefusedAndCounted(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	for name, tc := range map[string]struct {
		solution func(r *api.StepReply) string
		want     string
		counted  int
	}{
		"a failed command": {func(r *api.StepReply) string { return solve(r, `{"ok":false,"x":1}`) }, "COMMAND_FAILED", 1},
		"another type":     {as("comment", works), "TYPE_MISMATCH", 1},
		"a wrong hash": {func(r *api.StepReply) string {
			return strings.Replace(solve(r, works), r.Challenge.ProofHash, strings.Repeat("0", 64), 1)
		}, "PROOF_HASH_MISMATCH", 1},
		"no hash": {func(r *api.StepReply) string {
			return fmt.Sprintf(`{"type":"shell","nonce":%q,"shell":{"ok":true}}`, r.Challenge.Nonce)
		}, "MISSING_FIELD", 1},
		"a placeholder": {placeholder, "MISSING_FIELD", 0},
		"nothing":       {func(*api.StepReply) string { return "" }, "MISSING_FIELD", 0},
		"an unknown nonce": {func(*api.StepReply) string {
			return `{"type":"shell","nonce":"ffffffffffffffffffffffffffffffff","shell":{"ok":true}}`
		}, "NONCE_MISMATCH", 1},
		"not only an agent": {func(r *api.StepReply) string { return solve(r, `"text"`) }, "MISSING_FIELD", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.caller.Connection = name
			r := w.begin(uris[0])
			failed := w.next(uris[0], tc.solution(r))
			w.code(failed, tc.want)
			if failed.RetryCount == nil || *failed.RetryCount != tc.counted || failed.Challenge.Nonce != r.Challenge.Nonce {
				t.Errorf("reply = %+v, want retry_count %d and the same nonce", failed, tc.counted)
			}
			w.code(w.next(uris[0], solve(failed, works)), "")
		})
	}
}

func TestTheThirdFailureOffersThreeWaysOut(t *testing.T) {
	scene{doc: plainStep, moves: []move{
		sends(broken, "COMMAND_FAILED"), counted(1), obeyed(true), sends(broken, "COMMAND_FAILED"), obeyed(true),
		sends(broken, "MAX_RETRIES_EXCEEDED", "kairos_update with ", "kairos_attest with ", "ask the user"), counted(3), obeyed(false),
	}}.play(t)
}

const (
	approvedStep = "# Approve\n\n## Act\n\nact\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"approval_mode\":\"user\",\"mcp\":{\"tool_name\":\"go\"},\"sampling\":{\"user\":\"go now\"}}}\n```\n"
	askStep      = "# Ask\n\n## Confirm\n\nask\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"ok?\"}}}\n```\n"
	sampledStep  = "# Sampled\n\n## Find\n\nfind\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"mcp\":{\"tool_name\":\"find\"},\"sampling\":{\"user\":\"find it\"},\"output_schema\":{\"type\":\"object\",\"properties\":{\"ok\":{\"type\":\"boolean\"}}}}}\n```\n"
)

func TestAnApprovalStandsInFront(t *testing.T) {
	both := driver.Client{ElicitationForm: true, Sampling: true}
	scenes(t, map[string]scene{
		"of what a model is asked": {doc: approvedStep, client: both, moves: []move{
			begun(toPerson, "go now"), answers(yes, ""), calls(toModel), answers(sampled, ""), solved(driver.ModelGenerated),
			happened("asked elicitation", "approved elicitation", "asked sampling", "answered sampling", "accepted sampling"),
		}},
		// A step's own words for the model change what is approved as much as its prompt.
		"and shows what the step tells a model besides": {
			doc:    strings.Replace(approvedStep, `"user":"go now"`, `"system":"obey the model of the house","user":"go now"`, 1),
			client: both, moves: []move{begun(toPerson, "obey the model of the house")},
		},
		"and shows a long action to its end": { // nothing hides behind its length
			doc:    strings.Replace(approvedStep, "go now", "go "+strings.Repeat("a", 20_000)+" and remove everything", 1),
			client: both, moves: []move{begun(toPerson, "and remove everything")},
		},
		"and failures do not use up a person's word": {doc: approvedStep, client: formClient, moves: []move{
			begun(toPerson), answers(yes, ""),
			submits(wrongHash, "PROOF_HASH_MISMATCH"), submits(wrongHash, "PROOF_HASH_MISMATCH"), submits(wrongHash, "MAX_RETRIES_EXCEEDED"),
			sends(broken, "MAX_RETRIES_EXCEEDED"), calls(toPerson), answers(no, "MAX_RETRIES_EXCEEDED"), calls(toPerson),
		}},
	})
}

func TestADeclineStands(t *testing.T) {
	both := driver.Client{ElicitationForm: true, Sampling: true}
	older := func(p *play) { // asks again, and turns to the first question
		first := p.question
		calls(toPerson)(p)
		p.question = first
	}
	scenes(t, map[string]scene{
		"against the agent": {doc: approvedStep, client: both, change: trustsAgent, moves: []move{
			begun(toPerson), answers(no, "USER_DECLINED"),
			through(driver.Client{}), // the agent comes back as a client that has nobody to ask
			submits(as("user_input", approves), "USER_DECLINED"), sends(works, "MAX_RETRIES_EXCEEDED"),
			through(both), calls(toPerson), answers(yes, ""),
		}},
		"and is asked again only so often": {doc: approvedStep, client: both, moves: []move{
			begun(toPerson), answers(no, "USER_DECLINED"), calls(toPerson), answers(no, "USER_DECLINED"), calls(toPerson), answers(no, "MAX_RETRIES_EXCEEDED"),
			calls("USER_DECLINED", "kairos_attest"), obeyed(false),
		}},
		"though nobody could read it": {doc: askStep, client: formClient, moves: []move{
			calls(toPerson), sets("reading elicitation", true), answers(no, "DRIVER_UNAVAILABLE"), sets("reading elicitation", false),
			sends(approves, "USER_DECLINED"), calls(toPerson), answers(yes, ""),
		}},
		"on an older copy of the question": {doc: askStep, client: formClient, moves: []move{
			calls(toPerson), older, answers(no, "USER_DECLINED"), sends(approves, "USER_DECLINED"),
		}},
		"unlike an approval on an older copy": {doc: askStep, client: formClient, moves: []move{
			calls(toPerson), older, answers(yes, ""), solved(),
		}},
	})
}

func TestNoDriverGetsAroundAnApproval(t *testing.T) {
	all := map[string]scene{}
	for knob, want := range map[string]string{
		"claims a person mcp":         "APPROVAL_UNAVAILABLE",
		"asks for another kind mcp":   "APPROVAL_UNAVAILABLE",
		"takes the approval's id mcp": "DRIVER_UNAVAILABLE",
	} {
		all[knob] = scene{doc: gatedStep, knobs: []string{knob}, moves: []move{begun(want), sends(works, want), solved()}}
	}
	scenes(t, all)
}

func TestApprovalWithoutAPerson(t *testing.T) {
	typed := func(want string) move {
		return func(p *play) {
			if got := p.shown.Challenge.Type; got != want {
				p.t.Errorf("the challenge is of type %s, want %s", got, want)
			}
		}
	}
	scenes(t, map[string]scene{
		"nobody can be asked": {doc: approvedStep, moves: []move{begun("APPROVAL_UNAVAILABLE"), sends(works, "APPROVAL_UNAVAILABLE")}},
		"the agent is trusted": {doc: approvedStep, change: trustsAgent, moves: []move{
			begun(""), typed("user_input"), submits(as("mcp", works), "TYPE_MISMATCH"), sends(approves, ""), typed("mcp"), sends(works, ""),
		}},
		"a review types no phrase": {
			doc:    strings.Replace(approvedStep, `"approval_mode":"user"`, `"approval":{"phrase":"go"}`, 1),
			client: driver.Client{Sampling: true}, moves: []move{begun("APPROVAL_UNAVAILABLE")},
		},
		"the client reviews the request": {doc: approvedStep, client: driver.Client{Sampling: true}, moves: []move{begun(toModel), answers(sampled, "")}},
		"the reviewed request fails": {doc: approvedStep, client: driver.Client{Sampling: true}, moves: []move{
			begun(toModel), answers(`"prose"`, toModel), answers(`"prose"`, "APPROVAL_UNAVAILABLE"), sends(works, "APPROVAL_UNAVAILABLE"),
		}},
	})
}

func TestRepliesOfAModel(t *testing.T) {
	model := driver.Client{Sampling: true}
	scenes(t, map[string]scene{
		"an invalid one is repaired once, then the agent is asked": {doc: sampledStep, client: model, moves: []move{
			begun(toModel), func(p *play) {
				first := p.question
				answers(`"I found it!"`, toModel, `"problems":1`)(p)
				repair := p.question
				p.question = first
				answers(`"I found it!"`, toModel)(p) // a repeat of the first reply
				if repair.Seq <= first.Seq || p.question.Seq != repair.Seq {
					p.t.Errorf("questions %d, %d and %d, want a new one and that one again", first.Seq, repair.Seq, p.question.Seq)
				}
			},
			answers(`"Really!"`, "SAMPLING_FAILED"), sends(works, ""),
		}},
		"extra keys of the server's own evidence never advance": {doc: sampledStep, client: model, moves: []move{
			begun(toModel), answers(`{"action":"accept","content":{"ok":true,"extra":1}}`, "OUTPUT_INVALID"), solved(),
		}},
		"a question asked twice in vain is abandoned": {doc: sampledStep, client: model, moves: []move{
			begun(toModel), submits(nothing, toModel), submits(nothing, "SAMPLING_FAILED"), answers(sampled, ""), solved(),
		}},
		"one that was settled meanwhile is not asked again": {doc: sampledStep, client: model, moves: []move{
			begun(toModel), answers(sampled, ""), givesUp("", "settled"),
		}},
		"a broken capability gives way to the next route": {doc: sampledStep, client: model, knobs: []string{"sampling"}, moves: []move{begun(""), sends(works, "")}},
		"a broken driver costs no retry": {doc: plainStep, moves: []move{
			sets("mcp", true), sends(works, "DRIVER_UNAVAILABLE"), counted(0), sets("mcp", false), sends(works, ""),
		}},
	})
}

func TestAPersonMayTakeTime(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(askStep)[0]
	w.caller.Client = formClient
	shown := w.begin(uri) // nobody is asked before the work is done
	ask := w.ask(w.nextRound(uri, placeholder(shown)), toPerson)
	waiting, err := w.Waiting(t.Context(), w.caller, ask.Run, ask.Seq)
	if err != nil || waiting.ErrorCode != "WAITING_FOR_USER" || *waiting.RetryCount != 0 {
		t.Fatalf("Waiting = %+v, %v, want WAITING_FOR_USER and no retry counted", waiting, err)
	}
	held := w.caller
	held.Holding = func(id run.ID, seq int64) bool { return id == ask.Run && seq == ask.Seq }
	joined, err := w.Next(t.Context(), held, api.NextRequest{URI: uri, Solution: json.RawMessage(placeholder(shown))})
	if err != nil || joined.Ask == nil || joined.Ask.Seq != ask.Seq {
		t.Fatalf("a call while the question is open = %+v, %v, want the same question", joined, err)
	}
	late := w.caller
	late.Detached = true
	done, err := w.Continue(t.Context(), late, director.Continuation{Run: ask.Run, Seq: ask.Seq, Result: json.RawMessage(yes)})
	if err != nil || done.Reply == nil {
		t.Fatalf("late answer = %+v, %v", done, err)
	}
	told := w.next(uri, placeholder(shown))
	if len(vouchers(told)) != 1 || told.Solved[0].Provenance != driver.ClientAttested {
		t.Errorf("the next call tells %+v, want the step that was solved meanwhile", told)
	}
}

// inputsDoc begins a protocol that needs these inputs, all texts.
func inputsDoc(title string, names ...string) string {
	properties := make([]string, len(names))
	for i, name := range names {
		properties[i] = fmt.Sprintf(`%q:{"type":"string"}`, name)
	}
	return fmt.Sprintf("# %s\n\n```json\n{\"inputs\":{\"type\":\"object\",\"properties\":{%s},\"required\":[\"%s\"]}}\n```\n", title, strings.Join(properties, ","), strings.Join(names, `","`))
}

// shellDoc is a step that runs a command.
func shellDoc(label, body, name, cmd string) string {
	return fmt.Sprintf("\n## %s\n\n%s\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"name\":%q,\"shell\":{\"cmd\":%q}}}\n```\n", label, body, name, cmd)
}

func TestResultsFeedLaterSteps(t *testing.T) {
	doc := inputsDoc("Feed", "who") + shellDoc("One", "one", "one", "greet {{ input.who }} {{.Name}}") + shellDoc("Two", "two", "two", "use {{ steps.one.found }}")
	w := newWorld(t, nil)
	uris := w.mint(doc)
	_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0]})
	refused(t, err, fault.MissingInput, "who")
	if runs, err := w.AllRuns(t.Context(), w.caller, archive.RunsInput{}); err != nil || len(runs.Runs) != 0 {
		t.Errorf("a begin that lacks input left runs %v, %v", runs, err)
	}
	_, err = w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], Input: json.RawMessage(`{"who":7}`)})
	refused(t, err, fault.InvalidArgument)
	r := w.reply(w.beginRound(uris[0], `{"who":"Betty"}`))
	if got, want := string(r.Challenge.Display), `{"cmd":"greet Betty {{.Name}}"}`; got != want {
		t.Errorf("challenge = %s, want %s", got, want)
	}
	r = w.next(uris[0], solve(r, `{"ok":true,"found":[1,2]}`))
	if got, want := string(r.Challenge.Display), `{"cmd":"use [1,2]"}`; got != want {
		t.Errorf("challenge = %s, want %s", got, want)
	}
}

// The driver is never sent what it cannot take, and the agent is told what to do.
func TestAChallengeThatItsValuesMakeTooLargeIsAClearFault(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(inputsDoc("Feed", "v") + shellDoc("One", "one", "one", strings.Repeat("{{ input.v }} ", 100)))[0]
	_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uri, Input: json.RawMessage(`{"v":"` + strings.Repeat("x", 300<<10) + `"}`)})
	refused(t, err, fault.InvalidArgument, "challenge of step 1", "more than 4194304 bytes longer", "kairos_begin")
}

func TestResultsFeedTheTextOfLaterSteps(t *testing.T) {
	doc := inputsDoc("Text", "who") + shellDoc("One", "Greet {{ input.who }}, not {{ input.name }}.", "one", "a") + shellDoc("Two", "Use {{ steps.one.found }} and {{.Names}}.", "two", "b")
	w := newWorld(t, nil)
	minted, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: doc, ModelID: "test", Force: true})
	if err != nil || len(minted.Warnings) != 1 || !strings.Contains(minted.Warnings[0].Message, `no input "name"`) {
		t.Fatalf("Mint = %+v, %v, want one warning", minted, err)
	}
	uri := minted.Items[0].URI
	r := w.reply(w.beginRound(uri, `{"who":"Betty"}`))
	if got, want := r.CurrentStep.Content, "## One\n\nGreet <data from=\"input.who\">\"Betty\"</data>, not {{ input.name }}."; got != want {
		t.Errorf("content = %q, want %q", got, want)
	}
	r = w.next(uri, solve(r, `{"ok":true,"found":"red herring"}`))
	if got, want := r.CurrentStep.Content, "## Two\n\nUse <data from=\"steps.one.found\">\"red herring\"</data> and {{.Names}}."; got != want {
		t.Errorf("content = %q, want %q", got, want)
	}
	w.code(w.next(uri, solve(r, works)), "")
	reply, err := w.redact(runOf(r), 1)
	if err != nil || fmt.Sprint(reply.Quoting) != "[2]" {
		t.Fatalf("Redact(step 1) = %+v, %v, want it to find the text of step 2", reply, err)
	}
	contains(t, w.told(runOf(r)), "not: red herring")
}

func TestMissingInputIsAskedOfThePerson(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(inputsDoc("Greet", "who", "how") + shellDoc("One", "one", "one", "{{ input.how }} {{ input.who }}"))[0]
	w.caller.Client = formClient
	ask := w.ask(w.beginRound(uri, `{"how":"wave"}`), toPerson)
	contains(t, string(ask.Params), "who", "not: how")
	r := w.reply(w.answer(ask, `{"action":"accept","content":{"who":"Betty"}}`))
	if got, want := string(r.Challenge.Display), `{"cmd":"wave Betty"}`; got != want {
		t.Errorf("challenge = %s (%s %s), want %s", got, r.ErrorCode, r.Message, want)
	}
	w.code(r, "") // the first step is shown: nobody has failed to do it
	w.code(w.next(uri, solve(r, works)), "")
	w.code(w.reply(w.answer(w.ask(w.beginRound(uri, ""), toPerson), no)), "USER_DECLINED")
}

func TestInvalidTextIsRefusedOrRepaired(t *testing.T) {
	w := newWorld(t, nil)
	_, err := w.Mint(t.Context(), w.caller, api.MintRequest{ModelID: "m", Document: "# Half\n\n## One\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a \\ud800\"}}}\n```\n"})
	refused(t, err, fault.DocumentRefused, "6:14:")
	uris := w.mint(threeSteps)
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"out":"x \ud800 y"}`))
	w.code(r, "")
	contains(t, string(w.state(runOf(r)).Evidence[0].Output), "\ufffd") // the half pair is replaced
}

func TestAValueThatNoCommandCanHoldStopsTheStepThatNeedsIt(t *testing.T) {
	two := strings.ReplaceAll(shellDoc("Two", "two", "two", "use {{ steps.one.out }}"), `"shell"`, `"quoted"`)
	w := newWorld(t, nil)
	uris := w.mint("# Nul\n" + shellDoc("One", "one", "one", "a") + two)
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true,"out":"a\u0000b"}`))
	w.at(r, uris[1])
	w.code(r, "INVALID_ARGUMENT")
	if len(vouchers(r)) != 1 {
		t.Errorf("solved = %+v, want the step whose output it is", r.Solved)
	}
}

func TestUnknownURIsPointToSearch(t *testing.T) {
	w := newWorld(t, nil)
	for uri, want := range map[string]fault.Code{
		"kairos://mem/11111111-1111-1111-1111-111111111111": fault.NotFound,
		"kairos://mem/nonsense":                             fault.InvalidArgument,
		"":                                                  fault.InvalidArgument,
	} {
		_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uri})
		refused(t, err, want, "kairos_search")
	}
}

func TestACancelledCallWritesNothing(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Next(ctx, w.caller, api.NextRequest{URI: uris[0], Solution: json.RawMessage(solve(r, works))}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call ends with %v", err)
	}
	w.at(w.next(uris[0], solve(r, works)), uris[1])
}

func FuzzSolutionsNeverBreakTheServer(f *testing.F) {
	for _, seed := range []string{
		`{"type":"shell","shell":{"ok":true}}`, `{"type":7}`, `[]`, `{"type":"shell","nonce":"x","proof_hash":null,"shell":[[[[]]]],"evidence":{"a":{}}}`, `{"type":"","":{}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, solution string) {
		w := newWorld(t, nil)
		uris := w.mint(threeSteps)
		r := w.begin(uris[0])
		_, _ = w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0], Solution: json.RawMessage(solution)})
		w.code(w.next(uris[0], solve(r, works)), "")
	})
}

func TestTheSameEvidenceHasTwoDigests(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	digests := map[string]bool{}
	for range 3 {
		r := w.begin(uris[0])
		w.next(uris[0], solve(r, works))
		got := w.state(runOf(r))
		digests[got.Proofs[0].EvidenceDigest] = true
		if salt := got.Evidence[0].Salt; len(salt) != 32 {
			t.Errorf("salt = %q, want 128 bits in hex", salt)
		}
	}
	if len(digests) != 3 {
		t.Errorf("%d digests for three runs with the same evidence, want 3: a digest alone would confirm a guess", len(digests))
	}
}

// mine is a schema of 53 KB that takes 1.9 GiB and most of a minute to compile.
func mine() string {
	properties := make([]string, 300)
	for i := range properties {
		properties[i] = fmt.Sprintf(`"a%d":{"pattern":"(%s%d){1000}"}`, i, strings.Repeat("a.b.", 45), i)
	}
	return `{"properties":{` + strings.Join(properties, ",") + `}}`
}

// None is minted, but a store may hold one of an older program or of a copy.
func TestAStoredProtocolWithASchemaBeyondTheLimitsIsRefusedByName(t *testing.T) {
	for name, plant := range map[string]func(c *protocol.Chain){
		"inputs": func(c *protocol.Chain) { c.Inputs = json.RawMessage(mine()) },
		"output_schema": func(c *protocol.Chain) {
			c.Steps[0].Challenge = json.RawMessage(`{"type":"comment","comment":{"min_length":1},"output_schema":` + mine() + `}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			uri := w.mint("# Old mine\n\n## A\n\nx\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"comment\":{\"min_length\":1}}}\n```\n")[0]
			id, err := protocol.ParseURI(uri)
			if err != nil {
				t.Fatal(err)
			}
			chain, _, err := w.store.StepChain(t.Context(), w.caller.Spaces(), id)
			if err != nil {
				t.Fatal(err)
			}
			plant(&chain)
			if _, err := w.store.SaveChains(t.Context(), []library.Change{{Chain: chain, Replaces: chain.Revision}}); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uri, Input: json.RawMessage(`{"a1":"x"}`)})
			if took := time.Since(began); took > 10*time.Second { // it took a minute
				t.Errorf("Begin took %s", took)
			}
			refused(t, err, fault.InvalidArgument, `The protocol "Old mine" is at fault: its `+name, "more than 50000 steps")
		})
	}
}

// An input that would take minutes to be judged is refused at once.
func TestAnInputThatTakesTooMuchWorkIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	alternatives := strings.TrimSuffix(strings.Repeat(`{"type":"object"},`, 2900), ",")
	uri := w.mint("# M\n\n```json\n{\"inputs\":{\"properties\":{\"l\":{\"items\":{\"anyOf\":[" + alternatives + "]}}}}}\n```\n\n## A\n\nx\n")[0]
	input := `{"l":[` + strings.TrimSuffix(strings.Repeat("0,", 5000), ",") + `]}`
	began := time.Now()
	_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uri, Input: json.RawMessage(input)})
	if took := time.Since(began); took > 10*time.Second { // it took minutes
		t.Errorf("Begin took %s", took)
	}
	refused(t, err, fault.InvalidArgument, "more than 1048576 comparisons")
}
