package director_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
		return w.Begin(t.Context(), w.caller, in)
	}
	round, err := begin(api.BeginRequest{Roots: []string{"file:///srv/a%20b/", "/srv/c/../d", "/srv/d"}})
	if err != nil {
		t.Fatal(err)
	}
	id := round.Reply.RunID
	if want, got := []string{"/srv/a b", "/srv/d"}, w.state(run.ID(id)).Roots; !slices.Equal(got, want) {
		t.Errorf("roots = %q, want %q", got, want)
	}
	for name, roots := range map[string][]string{"none": nil, "the same": {"/srv/a b", "/srv/d"}} {
		if _, err := begin(api.BeginRequest{SessionID: id, Roots: roots}); err != nil {
			t.Errorf("resume with %s: %v", name, err)
		}
	}
	_, err = begin(api.BeginRequest{SessionID: id, Roots: []string{"/elsewhere"}})
	refused(t, err, fault.InvalidArgument)
	for _, root := range []string{"work", "https://example.com/", "file://host/work", "/a\x00b", ""} {
		_, err := begin(api.BeginRequest{Roots: []string{root}})
		refused(t, err, fault.InvalidArgument)
	}
}

const someDigest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

// filed is a protocol whose step demands files.
func filed(step string) string {
	return "# Filed\n\n## Make\n\nmake it\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a\"}," + step + "}}\n```\n"
}

// report is a solution that reports files.
func report(files string) func(*api.StepReply) string {
	return func(r *api.StepReply) string {
		return fmt.Sprintf(`{"type":%q,"nonce":%q,"proof_hash":%q,"evidence":%s}`, r.Challenge.Type, r.Challenge.Nonce, r.Challenge.ProofHash, files)
	}
}

// there is a report of a file that is there.
func there(path string) string {
	return fmt.Sprintf(`{"files":[{"path":%q,"exists":true,"size":3,"sha256":%q}]}`, path, someDigest)
}

func TestFilesOfAStep(t *testing.T) {
	const file, strict, lax = `"files":[{"path":"x"}]`, `"files":[{"path":"x"}],"files_required":true`, `"files":[{"path":"x"}],"files_required":false`
	roots := driver.Client{Roots: true}
	passed := func(want bool, by driver.Provenance) move { // by the driver that looked; an agent only reports
		return func(p *play) {
			f := p.shown.Solved[0].Files
			if f == nil || f.Provenance != by || (f.Passed != nil) != (by == driver.ServerObserved) || f.Passed != nil && *f.Passed != want {
				p.t.Errorf("files = %+v, want passed %t by %s", f, want, by)
			}
		}
	}
	seen := func(p *play) { // what was seen of the files is evidence, with its digest
		stored := p.state(runOf(p.shown))
		if a := stored.Evidence[0].Answers; stored.Verify() != nil || len(a) != 2 || !strings.Contains(string(a[1].Value), `"sha256"`) {
			p.t.Errorf("evidence = %+v", a)
		}
		if f := p.shown.Solved[0].Files; f.Via != "roots" {
			p.t.Errorf("files = %+v, want those of roots", f)
		}
	}
	const reviewed = "# R\n\n## Act\n\nact\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"approval_mode\":\"user\",\"mcp\":{\"tool_name\":\"go\"},\"sampling\":{\"user\":\"go\"},\"files\":[{\"path\":\"x\"}]}}\n```\n"
	all := map[string]scene{
		"are looked at in the call that brings the evidence": {doc: filed(strict), client: roots, moves: []move{
			sends(works, toRoots), answers(`{"roots":[]}`, ""), solved(driver.AgentReported), passed(true, driver.ServerObserved), seen,
		}},
		"are looked at without asking": {doc: filed(strict), knobs: []string{"roots are open"}, moves: []move{sends(works, ""), passed(true, driver.ServerObserved), seen}},
		"that are not as demanded": {doc: filed(file), knobs: []string{"roots are open", "files are missing"}, moves: []move{
			sends(works, "FILES_MISMATCH", "x: there is no such file", "not: sha256"), counted(1), solved(),
			submits(report(there("x")), "MISSING_FIELD"), // evidence is asked again, and a report of files is none
			sets("files are missing", false), sends(works, ""), solved(driver.AgentReported),
		}},
		"that are missing, not required": {doc: filed(`"required":false,` + file), knobs: []string{"roots are open", "files are missing"}, moves: []move{
			sends(works, ""), passed(false, driver.ServerObserved),
		}},
		// A driver that does not say whether files passed settles nothing.
		"of which the client says nothing": {doc: filed(strict), client: roots, knobs: []string{"roots says nothing"}, moves: []move{sends(works, toRoots), answers(`{"roots":[]}`, "FILES_UNVERIFIED")}},
		"of which the driver says nothing": {doc: filed(strict), knobs: []string{"roots are open", "roots says nothing"}, moves: []move{sends(works, "FILES_UNVERIFIED")}},
		"that the client keeps to itself":  {doc: filed(strict), client: roots, moves: []move{sends(works, toRoots), breaksDown("FILES_UNVERIFIED")}},
		"that the client keeps to itself, reported": {doc: filed(lax), client: roots, moves: []move{
			sends(works, toRoots), breaksDown(""), submits(report(there("x")), ""), passed(true, driver.AgentReported),
		}},
		"that get no answer, reported": {doc: filed(lax), client: roots, moves: []move{
			sends(works, toRoots), givesUp(toRoots), givesUp(""), submits(report(there("x")), ""), passed(true, driver.AgentReported),
		}},
		"need no approval of their own beside a client's review": {doc: reviewed, client: driver.Client{Sampling: true, Roots: true}, moves: []move{
			begun(toModel), answers(sampled, toRoots), answers(`{"roots":[]}`, ""), solved(driver.ModelGenerated),
		}},
		"need no approval of their own long after": {doc: filed(`"approval_mode":"user",` + file), client: formClient, moves: []move{
			calls(toPerson), answers(yes, ""), sends(works, ""), passes(12 * time.Hour), submits(report(there("x")), ""), solved(driver.AgentReported),
		}},
		"that nobody could look at, looked at by the next client": {doc: filed(strict), moves: []move{
			sends(works, "FILES_UNVERIFIED"), sends(works, "FILES_UNVERIFIED", "roots: unavailable (no roots)"),
			through(roots), sends(works, toRoots), answers(`{"roots":[]}`, ""), solved(driver.AgentReported),
		}},
	}
	for name, tc := range map[string]struct {
		files, want string
		then        move
	}{
		"as demanded":     {there("x"), "", passed(true, driver.AgentReported)}, // the agent's word and no more
		"of another file": {there("y"), "FILES_MISMATCH", sends(works, "")},
		"not there":       {`{"files":[{"path":"x","exists":false}]}`, "FILES_MISMATCH", sends(works, "")},
		"other content":   {strings.Replace(there("x"), "ba78", "ba79", 1), "FILES_MISMATCH", sends(works, "")},
		"no list":         {`{"x":{"exists":true}}`, "MISSING_FIELD", submits(report(there("x")), "")}, // the evidence is not asked for again
		"no digest":       {`{"files":[{"path":"x","exists":true,"size":3}]}`, "MISSING_FIELD", submits(report(there("x")), "")},
	} {
		all["a report is compared: "+name] = scene{doc: filed(`"files":[{"path":"x","min_size":2,"sha256":"` + someDigest + `"}]`), moves: []move{
			sends(works, ""), func(p *play) {
				contains(p.t, string(p.shown.NextCall.Arguments), `"evidence":"<JSON as text: {\"files\":[{\"exists\":\"<boolean`)
			}, submits(report(tc.files), tc.want), tc.then,
		}}
	}
	scenes(t, all)
}

func TestFilesAreDemandedWithTheRunsOwnValues(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(inputsDoc("Named", "name") + strings.TrimPrefix(filed(`"files":[{"path":"out/{{ input.name }}.md","newer_than_run":true}]`), "# Filed\n"))[0]
	begin := func(name string) (director.Round, error) {
		return w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uri, Input: json.RawMessage(fmt.Sprintf(`{"name":%q}`, name)), Roots: []string{"/srv"}})
	}
	round, err := begin("report")
	if err != nil {
		t.Fatal(err)
	}
	r := w.next(uri, solve(w.reply(round), works))
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
	_, err = begin("../../etc/passwd") // climbs out of the roots
	refused(t, err, fault.InvalidArgument)
}
