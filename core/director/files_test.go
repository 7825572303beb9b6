package director_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestRootsOfARunAreKeptAsItBegan(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(threeSteps)[0]
	begin := func(in api.BeginRequest) (director.Round, error) {
		in.URI = uri
		return w.Begin(context.Background(), w.caller, in)
	}
	round, err := begin(api.BeginRequest{Roots: []string{"file:///srv/a%20b/", "/srv/c/../d", "/srv/d"}})
	if err != nil {
		t.Fatal(err)
	}
	id := round.Reply.RunID
	want := []string{"/srv/a b", "/srv/d"}
	if r, err := w.stored(run.ID(id)); err != nil || !slices.Equal(r.Roots, want) {
		t.Errorf("roots = %q, %v, want %q", r.Roots, err, want)
	}
	for name, roots := range map[string][]string{"none": nil, "the same": {"/srv/a b", "/srv/d"}} {
		if _, err := begin(api.BeginRequest{SessionID: id, Roots: roots}); err != nil {
			t.Errorf("resume with %s: %v", name, err)
		}
	}
	if _, err := begin(api.BeginRequest{SessionID: id, Roots: []string{"/elsewhere"}}); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("resume with other roots = %v, want %s", err, fault.InvalidArgument)
	}
	for name, root := range map[string]string{"relative": "work", "a web address": "https://example.com/", "another machine": "file://host/work", "NUL": "/a\x00b", "empty": ""} {
		if _, err := begin(api.BeginRequest{Roots: []string{root}}); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("begin with a root that is %s = %v, want %s", name, err, fault.InvalidArgument)
		}
	}
}

const someDigest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

// filed is a protocol of two steps, the first of which demands files.
func filed(step string) string {
	return "# Filed\n\n## Make\n\nmake it\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a\"}," + step + "}}\n```\n\n" +
		"## Say\n\nsay it\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"comment\":{}}}\n```\n"
}

// report is a solution that reports files.
func report(r *api.StepReply, files string) string {
	return fmt.Sprintf(`{"type":%q,"nonce":%q,"proof_hash":%q,"evidence":%s}`,
		r.Challenge.Type, r.Challenge.Nonce, r.Challenge.ProofHash, files)
}

// there is a report of a file that is there.
func there(path string) string {
	return fmt.Sprintf(`{"files":[{"path":%q,"exists":true,"size":3,"sha256":%q}]}`, path, someDigest)
}

func (w *world) evidence(r *api.StepReply, step int) run.Evidence {
	w.t.Helper()
	stored, err := w.stored(runOf(r))
	if err != nil || len(stored.Evidence) < step {
		w.t.Fatalf("the run has %d proofs, %v, want %d", len(stored.Evidence), err, step)
	}
	if err := stored.Verify(); err != nil {
		w.t.Errorf("the proof chain: %v", err)
	}
	return *stored.Evidence[step-1]
}

func TestFilesAreLookedAtInTheCallThatBringsTheEvidence(t *testing.T) {
	for name, client := range map[string]driver.Client{"by its own roots": {Roots: true}, "without asking": {}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.caller.Client = client
			w.drivers.set("roots are open", true)
			uris := w.mint(filed(`"files":[{"path":"x"}],"files_required":true`))
			round := w.nextRound(uris[0], solve(w.begin(uris[0]), `{"ok":true}`))
			if client.Roots {
				round = w.answer(w.ask(round, "roots/list"), `{"roots":[]}`)
			}
			r := w.reply(round)
			w.code(r, "")
			w.at(r, uris[1])
			yes := true
			want := []api.Solved{{
				StepIndex: 1, URI: uris[0], Label: "Make", Driver: "shell", Via: "agent", Provenance: driver.AgentReported,
				Output: json.RawMessage(`{"ok":true}`), ProofHash: r.ProofHash,
				Files: &api.SolvedFiles{Via: "roots", Provenance: driver.ServerObserved, Passed: &yes},
			}}
			if diff := cmp.Diff(want, r.Solved); diff != "" {
				t.Errorf("solved (-want +got):\n%s", diff)
			}
			answers := w.evidence(r, 1).Answers
			if len(answers) != 2 || !strings.Contains(string(answers[1].Value), `"sha256"`) {
				t.Errorf("evidence = %+v, want what was seen of the files, with its digest", answers)
			}
		})
	}
}

func TestFilesThatAreNotAsDemandedAreACountedFailure(t *testing.T) {
	w := newWorld(t, nil)
	w.drivers.set("roots are open", true)
	w.drivers.set("files are missing", true)
	uris := w.mint(filed(`"files":[{"path":"x"}]`))
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true}`))
	w.code(r, "FILES_MISMATCH")
	if r.RetryCount == nil || *r.RetryCount != 1 || !strings.Contains(r.Message, "x: there is no such file") {
		t.Errorf("reply = %v %q, want failure 1 with the driver's message", r.RetryCount, r.Message)
	}
	if strings.Contains(r.Message, "sha256") || len(r.Solved) > 0 {
		t.Errorf("the reply tells too much or proves: %+v", r)
	}
	w.code(w.next(uris[0], report(r, there("x"))), "MISSING_FIELD") // evidence is asked again, and a report of files is none
	w.drivers.set("files are missing", false)
	r = w.begin(uris[0])
	w.at(w.next(uris[0], solve(r, `{"ok":true}`)), uris[1])
}

func TestAStepThatIsNotRequiredRecordsItsMissingFiles(t *testing.T) {
	w := newWorld(t, nil)
	w.drivers.set("roots are open", true)
	w.drivers.set("files are missing", true)
	uris := w.mint(filed(`"required":false,"files":[{"path":"x"}]`))
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true}`))
	w.at(r, uris[1])
	if f := r.Solved[0].Files; f == nil || f.Passed == nil || *f.Passed {
		t.Errorf("files = %+v, want that they did not pass", f)
	}
}

func TestAReportOfFilesIsComparedAndMarkedAsSuch(t *testing.T) {
	const checks = `"files":[{"path":"x","min_size":2,"sha256":"` + someDigest + `"}]`
	for name, tc := range map[string]struct{ files, want string }{
		"as demanded":     {there("x"), ""},
		"of another file": {there("y"), "FILES_MISMATCH"},
		"not there":       {`{"files":[{"path":"x","exists":false}]}`, "FILES_MISMATCH"},
		"other content":   {strings.Replace(there("x"), "ba78", "ba79", 1), "FILES_MISMATCH"},
		"no list":         {`{"x":{"exists":true}}`, "MISSING_FIELD"},
		"no digest":       {`{"files":[{"path":"x","exists":true,"size":3}]}`, "MISSING_FIELD"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			uris := w.mint(filed(checks))
			r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true}`))
			w.code(r, "")
			if got := string(r.NextCall.Arguments); !strings.Contains(got, `"evidence":{"files":[{"exists":"<boolean`) {
				t.Errorf("next_call = %s, want a form of the report", got)
			}
			r = w.next(uris[0], report(r, tc.files))
			w.code(r, tc.want)
			switch tc.want {
			case "":
				w.at(r, uris[1])
				if f := r.Solved[0].Files; f == nil || f.Provenance != driver.AgentReported || f.Passed != nil {
					t.Errorf("files = %+v, want the agent's word and no more", f)
				}
			case "MISSING_FIELD":
				w.at(w.next(uris[0], report(r, there("x"))), uris[1]) // the evidence is not asked for again
			default:
				w.code(w.next(uris[0], solve(r, `{"ok":true}`)), "")
			}
		})
	}
}

func TestADriverThatDoesNotSayWhetherFilesPassedSettlesNothing(t *testing.T) {
	for name, client := range map[string]driver.Client{"asking": {Roots: true}, "by itself": {}} {
		w := newWorld(t, nil)
		w.caller.Client = client
		w.drivers.set("roots are open", true)
		w.drivers.set("roots says nothing", true)
		uris := w.mint(filed(`"files":[{"path":"x"}],"files_required":true`))
		round := w.nextRound(uris[0], solve(w.begin(uris[0]), `{"ok":true}`))
		if client.Roots {
			round = w.answer(w.ask(round, "roots/list"), `{"roots":[]}`)
		}
		if r := w.reply(round); r.ErrorCode != "FILES_UNVERIFIED" {
			t.Errorf("%s: error_code = %q, want FILES_UNVERIFIED", name, r.ErrorCode)
		}
	}
}

func TestRootsThatTheClientKeepsToItselfLeaveTheReport(t *testing.T) {
	for required, want := range map[string]string{"true": "FILES_UNVERIFIED", "false": ""} {
		w := newWorld(t, nil)
		w.caller.Client.Roots = true
		uris := w.mint(filed(`"files":[{"path":"x"}],"files_required":` + required))
		ask := w.ask(w.nextRound(uris[0], solve(w.begin(uris[0]), `{"ok":true}`)), "roots/list")
		round, err := w.Continue(context.Background(), w.caller, director.Continuation{
			Run: ask.Run, Seq: ask.Seq, Error: &driver.ClientError{Code: -32603, Message: "no"},
		})
		if err != nil {
			t.Fatal(err)
		}
		r := w.reply(round)
		w.code(r, want)
		if want == "" {
			w.at(w.next(uris[0], report(r, there("x"))), uris[1])
		}
	}
}

func TestFilesNeedNoApprovalOfTheirOwn(t *testing.T) {
	t.Run("left to the client's review", func(t *testing.T) {
		w := newWorld(t, nil)
		w.caller.Client = driver.Client{Sampling: true, Roots: true}
		uris := w.mint("# R\n\n## Act\n\nact\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"approval_mode\":\"user\",\"mcp\":{\"tool_name\":\"go\"},\"sampling\":{\"user\":\"go\"},\"files\":[{\"path\":\"x\"}]}}\n```\n")
		round := w.answer(w.ask(w.beginRound(uris[0], ""), "sampling/createMessage"), `{"action":"accept","content":{"ok":true}}`)
		round = w.answer(w.ask(round, "roots/list"), `{"roots":[]}`)
		if r := w.reply(round); len(r.Solved) != 1 || r.ErrorCode != "" {
			t.Errorf("reply = %q %q, want the step solved", r.ErrorCode, r.Message)
		}
	})
	t.Run("long after the approval", func(t *testing.T) {
		w := newWorld(t, nil)
		w.caller.Client = driver.Client{ElicitationForm: true}
		uris := w.mint(filed(`"approval_mode":"user","files":[{"path":"x"}]`))
		round := w.nextRound(uris[0], placeholder(w.begin(uris[0])))
		r := w.reply(w.answer(w.ask(round, "elicitation/create"), `{"action":"accept","content":{"confirmation":"approved"}}`))
		r = w.next(uris[0], solve(r, `{"ok":true}`))
		w.machine.Pass(12 * time.Hour)
		w.at(w.next(uris[0], report(r, there("x"))), uris[1])
	})
}

func TestFilesAreDemandedWithTheRunsOwnValues(t *testing.T) {
	begin := func(name string) (*api.StepReply, error) {
		w := newWorld(t, nil)
		doc := "# Named\n\n```json\n{\"inputs\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"]}}\n```\n\n" +
			strings.TrimPrefix(filed(`"files":[{"path":"out/{{ input.name }}.md","newer_than_run":true}]`), "# Filed\n")
		uri := w.mint(doc)[0]
		round, err := w.Begin(context.Background(), w.caller, api.BeginRequest{
			URI: uri, Input: json.RawMessage(fmt.Sprintf(`{"name":%q}`, name)), Roots: []string{"/srv"},
		})
		if err != nil {
			return nil, err
		}
		return w.next(uri, solve(round.Reply, `{"ok":true}`)), nil
	}
	r, err := begin("report")
	if err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Files []struct{ Path string }
		Roots []string
		Since time.Time
	}
	if err := json.Unmarshal(r.Challenge.Display, &shown); err != nil {
		t.Fatal(err)
	}
	if len(shown.Files) != 1 || shown.Files[0].Path != "out/report.md" || !slices.Equal(shown.Roots, []string{"/srv"}) || shown.Since.IsZero() {
		t.Errorf("the agent is shown %s", r.Challenge.Display)
	}
	if _, err := begin("../../etc/passwd"); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("a value that climbs out of the roots = %v, want %s", err, fault.InvalidArgument)
	}
}

func TestAListOfFilesIsJudgedWhenItIsStored(t *testing.T) {
	w := newWorld(t, nil)
	for files, want := range map[string]string{
		`"files":[{"path":"a"},{"path":"../x"}]`:                 "/files/1/path",
		`"files":[{"path":"a","regex":"("}]`:                     "/files/0/regex",
		`"files":[{"glob":"{{ steps.say.x }}"}]`:                 "/files/0/glob",
		`"files":[{"path":"{{ steps.say.x }}"}]`:                 "steps.say",
		`"files":"a"`:                                            "/files",
		`"files_required":true`:                                  "/files_required",
		`"files":[{"path":"a","json_schema":{"type":"nobody"}}]`: "/files/0/json_schema",
	} {
		_, err := w.Mint(context.Background(), w.caller, api.MintRequest{Document: filed(files), ModelID: "t", Force: true})
		if fault.CodeOf(err) != fault.StoreFailed || !strings.Contains(err.Error(), want) {
			t.Errorf("mint with %s = %v, want a finding at %s", files, err, want)
		}
	}
}

func TestFilesThatNobodyCouldLookAtAreLookedAtByTheNextClient(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(filed(`"files":[{"path":"x"}],"files_required":true`))
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true}`))
	w.code(r, "FILES_UNVERIFIED")
	again := w.next(uris[0], solve(r, `{"ok":true}`))
	w.code(again, "FILES_UNVERIFIED")
	if !strings.Contains(again.Message, "roots: unavailable (no roots)") {
		t.Errorf("message = %q, want why nobody could look", again.Message)
	}
	w.caller.Client.Roots = true
	r = w.reply(w.answer(w.ask(w.nextRound(uris[0], solve(again, `{"ok":true}`)), "roots/list"), `{"roots":[]}`))
	w.at(r, uris[1])
}
