package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/offers"
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

// reach makes a call of the engine with what a probe gives it.
func reach[In, Out any](call func(Engine, context.Context, access.Caller, In) (Out, error), in func(probe) In) ask {
	return func(w *world, c access.Caller, p probe) (any, error) { return call(w.Engine, w.t.Context(), c, in(p)) }
}

// list makes a call that takes nothing but the caller.
func list[Out any](call func(Engine, context.Context, access.Caller) (Out, error)) map[string]ask {
	return map[string]ask{"list": func(w *world, c access.Caller, _ probe) (any, error) { return call(w.Engine, w.t.Context(), c) }}
}

// byRun reaches by the run of the protocol.
func byRun[In, Out any](call func(Engine, context.Context, access.Caller, In) (Out, error), in func(id run.ID) In) map[string]ask {
	return map[string]ask{"run": reach(call, func(p probe) In { return in(run.ID(p.Run)) })}
}

func itself(id run.ID) run.ID { return id }

// by reaches by texts that name a protocol.
func by[Out any](call func(w *world, c access.Caller, text string) (Out, error), names ...string) map[string]ask {
	all := map[string]func(p probe) string{
		"title": func(p probe) string { return p.Title }, "chain id": func(p probe) string { return p.ChainID }, "bare id": probe.uuid,
		"head": func(p probe) string { return p.Head }, "step": func(p probe) string { return p.Step }, "former step": func(p probe) string { return p.Gone },
		"words of the text": func(probe) string { return "confidential herbs" },
	}
	ways := make(map[string]ask)
	for _, name := range names {
		ways[name] = func(w *world, c access.Caller, p probe) (any, error) { return call(w, c, all[name](p)) }
	}
	return ways
}

// and adds ways to reach by the same call.
func and(ways map[string]ask, more map[string]ask) map[string]ask {
	maps.Copy(ways, more)
	return ways
}

var references = []string{"title", "chain id", "head", "bare id", "former step"}

// reaches is every engine call that takes a caller, in every way that could
// reach a protocol. A call that is not here fails the test.
var reaches = map[string]map[string]ask{
	"Record": {"space": reach(Engine.Record, func(p probe) []acceptances.Acceptance {
		return []acceptances.Acceptance{{Space: p.Space, Protocol: p.ChainID, Step: 1, Driver: "agent", Effect: driver.EffectReads, By: "me"}}
	})},
	"Actable": and(byRun(Engine.Actable, func(id run.ID) offers.On { return offers.On{Run: id} }), map[string]ask{
		"head": reach(Engine.Actable, func(p probe) offers.On { return offers.On{URI: p.Head} }),
	}),
	"Accept": {"space": reach(Engine.Accept, func(p probe) offers.AcceptInput {
		return offers.AcceptInput{Offer: offers.Offer{Space: p.Space, Chain: p.ChainID, Protocol: "digest", Total: 1, Steps: []offers.Step{{Step: 1, Driver: "agent"}}}, By: "me"}
	})},
	"Accepted": list(Engine.Accepted),
	"Entries":  list(Engine.Entries),
	"Revoke":   {"id": func(w *world, c access.Caller, p probe) (any, error) { return nil, w.Revoke(w.t.Context(), c, p.Run) }},
	"Begin": and(by(func(w *world, c access.Caller, uri string) (any, error) {
		return w.Begin(w.t.Context(), c, api.BeginRequest{URI: uri})
	}, "head", "step", "former step"), map[string]ask{
		"run": reach(Engine.Begin, func(p probe) api.BeginRequest { return api.BeginRequest{URI: p.Head, SessionID: p.Run} }),
	}),
	"Next": and(by(func(w *world, c access.Caller, uri string) (any, error) {
		return w.Next(w.t.Context(), c, api.NextRequest{URI: uri})
	}, "head", "former step"), map[string]ask{
		"nonce": reach(Engine.Next, func(p probe) api.NextRequest {
			s := fmt.Sprintf(`{"type":"shell","nonce":%q,"proof_hash":%q,"shell":{"ok":true}}`, p.Nonce, run.Genesis)
			return api.NextRequest{URI: p.Step, Solution: json.RawMessage(s)}
		}),
		"run": reach(Engine.Next, func(p probe) api.NextRequest { return api.NextRequest{URI: p.Head, RunID: p.Run} }),
	}),
	"Continue": byRun(Engine.Continue, func(id run.ID) director.Continuation {
		return director.Continuation{Run: id, Seq: 1, Result: json.RawMessage(`{}`)}
	}),
	"Unanswered": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Unanswered(w.t.Context(), c, run.ID(p.Run), 1)
	}},
	"Waiting": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Waiting(w.t.Context(), c, run.ID(p.Run), 1)
	}},
	"Undecline": byRun(Engine.Undecline, func(id run.ID) director.UndeclineInput { return director.UndeclineInput{Run: id, By: "me"} }),
	"Resumed":   byRun(Engine.Resumed, func(id run.ID) director.Pending { return director.Pending{Run: id, Seq: 1} }),
	"Approval": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Approval(w.t.Context(), c, run.ID(p.Run), "guessed")
	}},
	"AnswerApproval": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.AnswerApproval(w.t.Context(), c, run.ID(p.Run), "guessed", approval.Answer{Decision: "approved"})
	}},
	"Dependents": {"driver": reach(Engine.Dependents, func(probe) string { return "shell" })},
	"Attest": {
		"head": reach(Engine.Attest, func(p probe) api.AttestRequest {
			return api.AttestRequest{URI: p.Head, Outcome: "success", Message: "m"}
		}),
		"run": reach(Engine.Attest, func(p probe) api.AttestRequest {
			return api.AttestRequest{URI: p.Head, Outcome: "success", Message: "m", RunID: p.Run}
		}),
		"former step": reach(Engine.Attest, func(p probe) api.AttestRequest {
			return api.AttestRequest{URI: p.Gone, Outcome: "failure", Message: "m"}
		}),
	},
	"Search": and(by(func(w *world, c access.Caller, query string) (any, error) {
		return w.Search(w.t.Context(), c, api.SearchRequest{Query: query})
	}, "title", "words of the text"), map[string]ask{
		"the app space": reach(Engine.Search, func(p probe) api.SearchRequest { return api.SearchRequest{Query: p.Title, Space: access.AppSpace} }),
	}),
	"ExplainSearch": by(func(w *world, c access.Caller, query string) (any, error) {
		return w.ExplainSearch(w.t.Context(), c, api.SearchRequest{Query: query})
	}, "title", "words of the text"),
	"Mint": {
		"the same title":           reach(Engine.Mint, func(p probe) api.MintRequest { return api.MintRequest{Document: p.copied(), ModelID: "m"} }),
		"the same title, by force": reach(Engine.Mint, func(p probe) api.MintRequest { return api.MintRequest{Document: p.copied(), ModelID: "m", Force: true} }),
	},
	"Update": {
		"step": reach(Engine.Update, func(p probe) api.UpdateRequest {
			return api.UpdateRequest{URIs: []string{p.Step, p.Head}, Documents: []string{"## X\n\ny", "## Z\n\ny"}}
		}),
		"text": reach(Engine.Update, func(p probe) api.UpdateRequest {
			return api.UpdateRequest{URIs: []string{p.Head}, Updates: json.RawMessage(`{"text":"t"}`)}
		}),
		"former step": reach(Engine.Update, func(p probe) api.UpdateRequest {
			return api.UpdateRequest{URIs: []string{p.Gone}, Documents: []string{"## X\n\ny"}}
		}),
	},
	"Delete": {"all": reach(Engine.Delete, func(p probe) api.DeleteRequest { return api.DeleteRequest{URIs: []string{p.Step, p.Head, p.Gone}} })},
	"FindStep": by(func(w *world, c access.Caller, uri string) (any, error) {
		chain, i, err := w.FindStep(w.t.Context(), c, uri)
		return []any{chain, i}, err
	}, "head", "step", "former step"),
	"ChainOf": by(func(w *world, c access.Caller, uri string) (any, error) {
		chain, absent, err := w.ChainOf(w.t.Context(), c, uri)
		return chain.Title, errors.Join(absent, err)
	}, "head", "step", "former step"),
	"Dump": and(by(func(w *world, c access.Caller, uri string) (any, error) {
		return w.Dump(w.t.Context(), c, api.DumpRequest{URI: uri, Protocol: true})
	}, "head", "bare id", "former step"), map[string]ask{
		"step": reach(Engine.Dump, func(p probe) api.DumpRequest { return api.DumpRequest{URI: p.Step} }),
	}),
	"Part":    {"run": reach(Engine.Part, func(p probe) api.DumpRequest { return api.DumpRequest{URI: p.Head, RunID: p.Run, Part: 1} })},
	"Spaces":  {"titles": reach(Engine.Spaces, func(probe) api.SpacesRequest { return api.SpacesRequest{Titles: true} })},
	"Prompts": {"list": func(w *world, c access.Caller, _ probe) (any, error) { return w.Prompts(w.t.Context(), c) }},
	"AllRuns": {"list": reach(Engine.AllRuns, func(probe) archive.RunsInput { return archive.RunsInput{} })},
	"Retried": byRun(Engine.Retried, func(id run.ID) director.Later { return director.Later{Run: id, Step: 1} }),
	"Cancel":  byRun(Engine.Cancel, func(id run.ID) director.CancelInput { return director.CancelInput{Run: id, By: "me"} }),
	"Decide": byRun(Engine.Decide, func(id run.ID) director.DecideInput {
		return director.DecideInput{Run: id, By: "me", Reason: "because"}
	}),
	"Abandon": {"run": func(w *world, c access.Caller, p probe) (any, error) {
		return w.Abandon(w.t.Context(), c, run.ID(p.Run), "because")
	}},
	"Account": byRun(Engine.Account, itself),
	"Prune": {"all": func(w *world, c access.Caller, _ probe) (any, error) {
		ended, err := w.Prune(w.t.Context(), c, archive.PruneInput{DryRun: true}) // of all principals
		return ended.Runs, err
	}},
	"Redact":    byRun(Engine.Redact, func(id run.ID) archive.RedactInput { return archive.RedactInput{Run: id} }),
	"Timeline":  byRun(Engine.Timeline, itself),
	"Decisions": byRun(Engine.Decisions, itself),
	"Export": {
		"everything": func(w *world, c access.Caller, _ probe) (any, error) { return exportedBy(w, c, "") },
		"the space":  func(w *world, c access.Caller, p probe) (any, error) { return exportedBy(w, c, p.Space) },
	},
	"Import": {
		"into the space": imports(func(p probe) library.ImportInput {
			return library.ImportInput{Space: p.Space, Items: []library.ImportItem{{Document: p.copied()}}}
		}),
		"as the record says": imports(func(p probe) library.ImportInput {
			return library.ImportInput{OnExisting: library.ReplaceExisting, Items: []library.ImportItem{{
				Document: p.copied(), Record: &library.Record{ChainID: p.ChainID, Space: p.Space, Revision: 2},
			}}}
		}),
		"under its identity": imports(func(p probe) library.ImportInput {
			return library.ImportInput{Space: "personal", OnExisting: library.ReplaceExisting, Items: []library.ImportItem{{
				Document: p.copied(), Record: &library.Record{ChainID: p.ChainID, Steps: []library.RecordedStep{{UUID: p.uuid(), Name: "one"}}},
			}}}
		}),
	},
	"History":    by(func(w *world, c access.Caller, ref string) (any, error) { return w.History(w.t.Context(), c, ref) }, references...),
	"Version":    by(func(w *world, c access.Caller, ref string) (any, error) { return w.Version(w.t.Context(), c, ref, 1) }, references...),
	"Restore":    by(func(w *world, c access.Caller, ref string) (any, error) { return w.Restore(w.t.Context(), c, ref, 1) }, references...),
	"Unserved":   list(Engine.Unserved),
	"Unfinished": list(Engine.Unfinished),
}

// copied is a protocol with the same title.
func (p probe) copied() string { return "# " + p.Title + "\n\n## One\n\nx\n" }

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

// imports imports one item; why it failed is what the caller learns.
func imports(in func(probe) library.ImportInput) ask {
	return func(w *world, c access.Caller, p probe) (any, error) {
		results, err := w.Import(w.t.Context(), c, in(p))
		if err == nil {
			err = results[0].Err
		}
		return results, err
	}
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
			w := newWorld(t, nil)
			p := hide(w, who.owner)
			nth := 0
			for call, ways := range reaches {
				for way, reach := range ways {
					caller := who.caller
					if nth++; caller.Principal == who.owner.Principal {
						w = newWorld(t, nil) // nobody else can reach like this, so that an earlier call could change what is there
						p = hide(w, who.owner)
					} else {
						caller.Principal, caller.Space = fmt.Sprintf("me%d", nth), fmt.Sprintf("user:test:me%d", nth)
					}
					foreign, absent := bothReached(w, p, who.owner, caller, reach)
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

// bothReached lets the caller reach for something that does not exist and then for the
// secret. It returns what the caller saw, with the values it asked with blotted out. The
// protocols of the owner must be as before.
func bothReached(w *world, p probe, owner, caller access.Caller, reach ask) (foreign, absent string) {
	w.t.Helper()
	nothing := probe{
		Title: "Nothing At All", ChainID: protocol.ChainID("Nothing At All"),
		Head: "kairos://mem/11111111-1111-4111-8111-111111111111", Step: "kairos://mem/22222222-2222-4222-8222-222222222222",
		Gone: "kairos://mem/33333333-3333-4333-8333-333333333333",
		Run:  "01900000-0000-7000-8000-000000000000", Nonce: strings.Repeat("e", 32), Space: "user:test:nobody",
	}
	before := ownerSees(w, owner, p)
	reply, err := reach(w, caller, nothing)
	absent = nothing.blot(learned(w.t, reply, err))
	reply, err = reach(w, caller, p)
	foreign = p.blot(learned(w.t, reply, err))
	if after := ownerSees(w, owner, p); after != before {
		w.t.Errorf("the owner's protocol changed from\n%s\nto\n%s", before, after)
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
func learned(t testing.TB, reply any, err error) string {
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
