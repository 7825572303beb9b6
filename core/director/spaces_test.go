package director_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/grants"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// probe is everything by which somebody could ask for a protocol.
type probe struct {
	Title, ChainID   string
	Head, Step, Gone string // URIs; Gone is of a step that a later version dropped
	Run, Nonce       string
	Space            string
}

func (p probe) uuid() string { return p.Head[strings.LastIndex(p.Head, "/")+1:] }

// ask is one way to reach for a protocol.
type ask func(w *world, c access.Caller, p probe) (any, error)

// reaches is every engine call that takes a caller, in every way that could
// reach a protocol. A call that is not here fails the test.
var reaches = map[string]map[string]ask{
	"Allow": {
		"space": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Allow(w.t.Context(), c, []grants.Grant{{
				Space: p.Space, Protocol: p.ChainID, Step: 1, Driver: "agent", Effect: driver.EffectReads, By: "me",
			}})
		},
	},
	"Actable": {
		"head": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Actable(w.t.Context(), c, director.ActsOn{URI: p.Head})
		},
		"run": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Actable(w.t.Context(), c, director.ActsOn{Run: run.ID(p.Run)})
		},
	},
	"AllowSteps": {
		"head": func(w *world, c access.Caller, p probe) (any, error) {
			return w.AllowSteps(w.t.Context(), c, director.AllowInput{ActsOn: director.ActsOn{URI: p.Head}, By: "me"})
		},
	},
	"Granted": {
		"list": func(w *world, c access.Caller, _ probe) (any, error) { return w.Granted(w.t.Context(), c) },
	},
	"Revoke": {
		"id": func(w *world, c access.Caller, p probe) (any, error) { return nil, w.Revoke(w.t.Context(), c, p.Run) },
	},
	"Begin": {
		"head": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Begin(w.t.Context(), c, api.BeginRequest{URI: p.Head})
		},
		"step": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Begin(w.t.Context(), c, api.BeginRequest{URI: p.Step})
		},
		"former step": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Begin(w.t.Context(), c, api.BeginRequest{URI: p.Gone})
		},
		"run": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Begin(w.t.Context(), c, api.BeginRequest{URI: p.Head, SessionID: p.Run})
		},
	},
	"Next": {
		"head": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Next(w.t.Context(), c, api.NextRequest{URI: p.Head})
		},
		"nonce": func(w *world, c access.Caller, p probe) (any, error) {
			s := fmt.Sprintf(`{"type":"shell","nonce":%q,"proof_hash":%q,"shell":{"ok":true}}`, p.Nonce, run.Genesis)
			return w.Next(w.t.Context(), c, api.NextRequest{URI: p.Step, Solution: json.RawMessage(s)})
		},
		"run": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Next(w.t.Context(), c, api.NextRequest{URI: p.Head, RunID: p.Run})
		},
		"former step": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Next(w.t.Context(), c, api.NextRequest{URI: p.Gone})
		},
	},
	"Continue": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Continue(w.t.Context(), c, director.Continuation{Run: run.ID(p.Run), Seq: 1, Result: json.RawMessage(`{}`)})
	}},
	"Unanswered": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Unanswered(w.t.Context(), c, run.ID(p.Run), 1)
	}},
	"Waiting": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Waiting(w.t.Context(), c, run.ID(p.Run), 1)
	}},
	"Undecline": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Undecline(w.t.Context(), c, director.UndeclineInput{Run: run.ID(p.Run), By: "me"})
	}},
	"Resumed": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Resumed(w.t.Context(), c, director.Pending{Run: run.ID(p.Run), Seq: 1})
	}},
	"Approval": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Approval(w.t.Context(), c, run.ID(p.Run), "guessed")
	}},
	"AnswerApproval": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.AnswerApproval(w.t.Context(), c, run.ID(p.Run), "guessed", approval.Answer{Decision: "approved"})
	}},
	"Dependents": {"driver": func(w *world, c access.Caller, _ probe) (any, error) {
		return w.Dependents(w.t.Context(), c, "shell")
	}},
	"Attest": {
		"head": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Attest(w.t.Context(), c, api.AttestRequest{URI: p.Head, Outcome: "success", Message: "m"})
		},
		"run": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Attest(w.t.Context(), c, api.AttestRequest{URI: p.Head, Outcome: "success", Message: "m", RunID: p.Run})
		},
		"former step": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Attest(w.t.Context(), c, api.AttestRequest{URI: p.Gone, Outcome: "failure", Message: "m"})
		},
	},
	"Search": {
		"title": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Search(w.t.Context(), c, api.SearchRequest{Query: p.Title})
		},
		"words of the text": func(w *world, c access.Caller, _ probe) (any, error) {
			return w.Search(w.t.Context(), c, api.SearchRequest{Query: "confidential herbs"})
		},
		"the app space": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Search(w.t.Context(), c, api.SearchRequest{Query: p.Title, Space: access.AppSpace})
		},
	},
	"ExplainSearch": {
		"title": func(w *world, c access.Caller, p probe) (any, error) {
			return w.ExplainSearch(w.t.Context(), c, api.SearchRequest{Query: p.Title})
		},
		"words of the text": func(w *world, c access.Caller, _ probe) (any, error) {
			return w.ExplainSearch(w.t.Context(), c, api.SearchRequest{Query: "confidential herbs"})
		},
	},
	"Mint": {
		"the same title": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Mint(w.t.Context(), c, api.MintRequest{Document: "# " + p.Title + "\n\n## One\n\nx\n", ModelID: "m"})
		},
		"the same title, by force": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Mint(w.t.Context(), c, api.MintRequest{Document: "# " + p.Title + "\n\n## One\n\nx\n", ModelID: "m", Force: true})
		},
	},
	"Update": {
		"step": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Update(w.t.Context(), c, api.UpdateRequest{URIs: []string{p.Step, p.Head}, Documents: []string{"## X\n\ny", "## Z\n\ny"}})
		},
		"text": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Update(w.t.Context(), c, api.UpdateRequest{URIs: []string{p.Head}, Updates: json.RawMessage(`{"text":"t"}`)})
		},
		"former step": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Update(w.t.Context(), c, api.UpdateRequest{URIs: []string{p.Gone}, Documents: []string{"## X\n\ny"}})
		},
	},
	"Delete": {"all": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Delete(w.t.Context(), c, api.DeleteRequest{URIs: []string{p.Step, p.Head, p.Gone}})
	}},
	"FindStep": byURI(func(w *world, c access.Caller, uri string) (any, error) {
		chain, i, err := w.FindStep(w.t.Context(), c, uri)
		return []any{chain, i}, err
	}),
	"ChainOf": byURI(func(w *world, c access.Caller, uri string) (any, error) {
		chain, absent, err := w.ChainOf(w.t.Context(), c, uri)
		return chain.Title, errors.Join(absent, err)
	}),
	"Dump": {
		"step": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Dump(w.t.Context(), c, api.DumpRequest{URI: p.Step})
		},
		"protocol": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Dump(w.t.Context(), c, api.DumpRequest{URI: p.Head, Protocol: true})
		},
		"bare id": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Dump(w.t.Context(), c, api.DumpRequest{URI: p.uuid(), Protocol: true})
		},
		"former step": func(w *world, c access.Caller, p probe) (any, error) {
			return w.Dump(w.t.Context(), c, api.DumpRequest{URI: p.Gone, Protocol: true})
		},
	},
	"Spaces": {"titles": func(w *world, c access.Caller, _ probe) (any, error) {
		return w.Spaces(w.t.Context(), c, api.SpacesRequest{Titles: true})
	}},
	"Prompts": {"list": func(w *world, c access.Caller, _ probe) (any, error) { return w.Prompts(w.t.Context(), c) }},
	"AllRuns": {"list": func(w *world, c access.Caller, _ probe) (any, error) {
		return w.AllRuns(w.t.Context(), c, archive.RunsInput{})
	}},
	"Retried": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Retried(w.t.Context(), c, director.Later{Run: run.ID(p.Run), Step: 1})
	}},
	"Cancel": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Cancel(w.t.Context(), c, director.CancelInput{Run: run.ID(p.Run), By: "me"})
	}},
	"Decide": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Decide(w.t.Context(), c, director.DecideInput{Run: run.ID(p.Run), By: "me", Reason: "because"})
	}},
	"Abandon": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Abandon(w.t.Context(), c, run.ID(p.Run), "because")
	}},
	"Account": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Account(w.t.Context(), c, run.ID(p.Run))
	}},
	"Redact": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Redact(w.t.Context(), c, archive.RedactInput{Run: run.ID(p.Run)})
	}},
	"Timeline": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Timeline(w.t.Context(), c, run.ID(p.Run))
	}},
	"Decisions": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Decisions(w.t.Context(), c, run.ID(p.Run))
	}},
	"Export": {
		"everything": func(w *world, c access.Caller, _ probe) (any, error) { return exportedBy(w, c, "") },
		"the space":  func(w *world, c access.Caller, p probe) (any, error) { return exportedBy(w, c, p.Space) },
	},
	"Import": {
		"into the space": func(w *world, c access.Caller, p probe) (any, error) {
			return importedBy(w, c, library.ImportInput{Space: p.Space, Items: []library.ImportItem{{Document: "# " + p.Title + "\n\n## One\n\nx\n"}}})
		},
		"as the record says": func(w *world, c access.Caller, p probe) (any, error) {
			return importedBy(w, c, library.ImportInput{OnExisting: library.ReplaceExisting, Items: []library.ImportItem{{
				Document: "# " + p.Title + "\n\n## One\n\nx\n", Record: &library.Record{ChainID: p.ChainID, Space: p.Space, Revision: 2},
			}}})
		},
		"under its identity": func(w *world, c access.Caller, p probe) (any, error) {
			return importedBy(w, c, library.ImportInput{Space: "personal", OnExisting: library.ReplaceExisting, Items: []library.ImportItem{{
				Document: "# " + p.Title + "\n\n## One\n\nx\n",
				Record:   &library.Record{ChainID: p.ChainID, Steps: []library.RecordedStep{{UUID: p.uuid(), Name: "one"}}},
			}}})
		},
	},
	"History":  byReference(func(w *world, c access.Caller, ref string) (any, error) { return w.History(w.t.Context(), c, ref) }),
	"Version":  byReference(func(w *world, c access.Caller, ref string) (any, error) { return w.Version(w.t.Context(), c, ref, 1) }),
	"Restore":  byReference(func(w *world, c access.Caller, ref string) (any, error) { return w.Restore(w.t.Context(), c, ref, 1) }),
	"Unserved": {"list": func(w *world, c access.Caller, _ probe) (any, error) { return w.Unserved(w.t.Context(), c) }},
}

// byURI reaches by the URIs of a protocol's steps.
func byURI(call func(w *world, c access.Caller, uri string) (any, error)) map[string]ask {
	ways := make(map[string]ask)
	for name, uri := range map[string]func(p probe) string{
		"head":        func(p probe) string { return p.Head },
		"step":        func(p probe) string { return p.Step },
		"former step": func(p probe) string { return p.Gone },
	} {
		ways[name] = func(w *world, c access.Caller, p probe) (any, error) { return call(w, c, uri(p)) }
	}
	return ways
}

// byReference reaches by everything that can name a protocol.
func byReference(call func(w *world, c access.Caller, ref string) (any, error)) map[string]ask {
	ways := make(map[string]ask)
	for name, ref := range map[string]func(p probe) string{
		"title": func(p probe) string { return p.Title }, "chain id": func(p probe) string { return p.ChainID },
		"head": func(p probe) string { return p.Head }, "bare id": probe.uuid, "former step": func(p probe) string { return p.Gone },
	} {
		ways[name] = func(w *world, c access.Caller, p probe) (any, error) { return call(w, c, ref(p)) }
	}
	return ways
}

func exportedBy(w *world, c access.Caller, space string) (any, error) {
	var all []library.Written
	for p, err := range w.Export(w.t.Context(), c, library.ExportInput{Space: space, History: true}) {
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, nil
}

// importedBy imports one item; why it failed is what the caller learns.
func importedBy(w *world, c access.Caller, in library.ImportInput) (any, error) {
	results, err := w.Import(w.t.Context(), c, in)
	if err == nil {
		err = results[0].Err
	}
	return results, err
}

func TestEveryEngineCallIsTriedAcrossSpaces(t *testing.T) {
	e := reflect.TypeFor[Engine]()
	for m := range e.Methods() {
		takesCaller := false
		for in := range m.Type.Ins() {
			takesCaller = takesCaller || in == reflect.TypeFor[access.Caller]()
		}
		if _, tried := reaches[m.Name]; takesCaller && !tried {
			t.Errorf("Engine.%s takes a Caller and is not tried across spaces; add it to reaches", m.Name)
		}
	}
	for name := range reaches {
		if _, ok := e.MethodByName(name); !ok {
			t.Errorf("reaches has %s, which is not a method of Engine", name)
		}
	}
}

const secret = "# Secret Garden\n\n## Enter quietly\n\nconfidential herbs\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a\"}}}\n```\n\n## Leave\n\nbye\n"

func TestWhatIsInAnotherSpaceIsAsIfItWereNot(t *testing.T) {
	for name, who := range map[string]struct{ owner, caller access.Caller }{
		"another's own space": {
			access.Caller{Principal: "you", Space: "user:test:you"},
			access.Caller{Principal: "me", Space: "user:test:me", Groups: []string{"group:test:ours"}},
		},
		"another group": {
			access.Caller{Principal: "you", Space: "user:test:you", Groups: []string{"group:test:theirs"}},
			access.Caller{Principal: "me", Space: "user:test:me", Groups: []string{"group:test:ours"}},
		},
		"a group of the same name in another realm": {
			access.Caller{Principal: "you", Space: "user:other:you", Groups: []string{"group:other:ours"}},
			access.Caller{Principal: "me", Space: "user:test:me", Groups: []string{"group:test:ours"}},
		},
		"the group that was left": {
			access.Caller{Principal: "me", Space: "user:test:me", Groups: []string{"group:test:ours"}},
			access.Caller{Principal: "me", Space: "user:test:me"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for call, ways := range reaches {
				for way, reach := range ways {
					foreign, absent := bothReached(t, who.owner, who.caller, reach)
					if diff := cmp.Diff(absent, foreign); diff != "" {
						t.Errorf("%s by %s tells a foreign protocol from an absent one (-absent +foreign):\n%s", call, way, diff)
					}
					for _, leak := range []string{"Secret", "Garden", "Enter quietly", "confidential", "Leave"} {
						if strings.Contains(foreign, leak) {
							t.Errorf("%s by %s tells %q:\n%s", call, way, leak, foreign)
						}
					}
				}
			}
		})
	}
}

// bothReached stores the secret and lets the caller reach for something that
// does not exist and then for the secret. It returns what the caller saw, with
// the values it asked with blotted out. The protocols of the owner must be as before.
func bothReached(t *testing.T, owner, caller access.Caller, reach ask) (foreign, absent string) {
	t.Helper()
	w := newWorld(t, nil)
	p := hide(w, owner)
	nothing := probe{
		Title: "Nothing At All", ChainID: protocol.ChainID("Nothing At All"),
		Head: "kairos://mem/11111111-1111-4111-8111-111111111111", Step: "kairos://mem/22222222-2222-4222-8222-222222222222",
		Gone: "kairos://mem/33333333-3333-4333-8333-333333333333",
		Run:  "01900000-0000-7000-8000-000000000000", Nonce: strings.Repeat("e", 32), Space: "user:test:nobody",
	}
	before := ownerSees(w, owner, p)
	reply, err := reach(w, caller, nothing)
	absent = nothing.blot(learned(t, reply, err))
	reply, err = reach(w, caller, p)
	foreign = p.blot(learned(t, reply, err))
	if after := ownerSees(w, owner, p); after != before {
		t.Errorf("the owner's protocol changed from\n%s\nto\n%s", before, after)
	}
	return foreign, absent
}

// hide stores the secret in the last of the owner's spaces, with a former step and a run.
func hide(w *world, owner access.Caller) probe {
	w.t.Helper()
	space := owner.Space
	if len(owner.Groups) > 0 {
		space = owner.Groups[0]
	}
	mint := func(doc string) api.MintReply {
		r, err := w.Mint(w.t.Context(), owner, api.MintRequest{Document: doc, ModelID: "m", Force: true, Space: space})
		if err != nil {
			w.t.Fatal(err)
		}
		return r
	}
	gone := mint(secret + "\n## Gone\n\nx\n").Items[2].URI
	items := mint(secret).Items
	r, err := w.Begin(w.t.Context(), owner, api.BeginRequest{URI: items[0].URI})
	if err != nil {
		w.t.Fatal(err)
	}
	return probe{
		Title: "Secret Garden", ChainID: protocol.ChainID("Secret Garden"), Head: items[0].URI, Step: items[1].URI, Gone: gone,
		Run: r.Reply.RunID, Nonce: r.Reply.Challenge.Nonce, Space: space,
	}
}

// ownerSees is what is in the owner's space.
func ownerSees(w *world, owner access.Caller, p probe) string {
	w.t.Helper()
	owner = access.Caller{Principal: owner.Principal, Space: p.Space}
	d, err := w.Dump(w.t.Context(), owner, api.DumpRequest{URI: p.Head, Protocol: true})
	if err != nil {
		w.t.Fatal(err)
	}
	runs, err := w.AllRuns(w.t.Context(), owner, archive.RunsInput{Live: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("%s\n%v", d.Document, len(runs.Runs))
}

// learned is everything that a caller learns from a call.
func learned(t *testing.T, reply any, err error) string {
	t.Helper()
	b, bad := json.MarshalIndent(reply, "", " ")
	if bad != nil {
		t.Fatal(bad)
	}
	if err == nil {
		return string(b)
	}
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("an error without a code: %v", err)
	}
	details, bad := json.Marshal(f.Details)
	if bad != nil {
		t.Fatal(bad)
	}
	return fmt.Sprintf("%s\n%s %s\n%s\n%s", b, f.Code, f.Message, f.NextAction, details)
}

var (
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
)

func (p probe) blot(s string) string {
	for name, v := range map[string]string{
		"<title>": p.Title, "<chain>": p.ChainID, "<run>": p.Run, "<nonce>": p.Nonce, "<space>": p.Space,
		"<head>": p.uuid(), "<step>": p.Step[len(p.Step)-36:], "<gone>": p.Gone[len(p.Gone)-36:],
	} {
		s = strings.ReplaceAll(s, v, name)
	}
	return anyTime.ReplaceAllString(anyUUID.ReplaceAllString(s, "<uuid>"), "<time>")
}
