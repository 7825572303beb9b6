package postgres_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/logins"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
	"github.com/kairos-mcp/kairos/core/tokens"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const mine = "user:test"

// filled is a SQLite store with something in every table.
func filled(t *testing.T) (*sqlitetest.Store, []run.ID) {
	t.Helper()
	s, err := sqlitetest.Open(filepath.Join(t.TempDir(), "kairos.db"), nil)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	kept, changed, deleted := storetest.NewChain(mine, "Kept walrus", "One", "Two"), storetest.NewChain(mine, "Changed heron", "One", "Two"), storetest.NewChain(mine, "Deleted otter", "One")
	for _, c := range []protocol.Chain{kept, changed, deleted} {
		_, err := s.SaveChains(t.Context(), []library.Change{{Chain: c}})
		must(t, err)
	}
	less := changed
	less.Steps = less.Steps[:1]
	_, err = s.SaveChains(t.Context(), []library.Change{{Chain: less, Replaces: 1}})
	must(t, err)
	must(t, s.DeleteChain(t.Context(), mine, deleted.ID, 1))
	must(t, s.Rate(t.Context(), mine, []library.Rating{{Step: kept.Steps[0].UUID, Outcome: library.OutcomeSuccess, Times: 3, Bonus: 0.5, Score: 7, Tier: "good", Rater: "me", Context: "here", At: time.Unix(1, 2).UTC()}}))
	must(t, s.SaveVectors(t.Context(), "model", map[string][]float32{protocol.PassageHash(kept.Passage(0)): {1, -2, 3}}))
	var ids []run.ID
	for _, state := range []run.State{run.Open, run.Asking, run.Closed} {
		r := storetest.NewRun("somebody", kept)
		must(t, s.CreateRun(t.Context(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Needed, Run: r.ID}}}, kept))
		r.Revision, r.State, r.Outcome = 1, state, "<&> \x00 ü"
		must(t, s.SaveRun(t.Context(), runs.Save{
			Run: r, Events: []run.Event{{Kind: run.Asked, Run: r.ID, Reason: strings.Repeat("x", 5000)}},
			Recorded: []runs.Recorded{{Key: "nonce:one", Payload: "p", Reply: json.RawMessage(`{"a":1}`)}, {Key: "seq:1", Payload: "q", Reply: json.RawMessage(`2`)}},
		}))
		ids = append(ids, r.ID)
	}
	must(t, s.SaveAcceptances(t.Context(), []acceptances.Acceptance{{ID: "g1", Space: mine, Protocol: "digest", Step: 1, Driver: "shell", Effect: driver.EffectReads, By: "me", At: time.Unix(3, 0).UTC()}}))
	must(t, s.SaveDecline(t.Context(), declines.Decline{Principal: "me", Space: mine, Key: "rm", Run: ids[0], Step: 1, At: time.Unix(4, 0).UTC()}, time.Time{}))
	must(t, s.EndSession(t.Context(), "session", time.Unix(5, 0), time.Unix(6, 0)))
	must(t, s.CreateToken(t.Context(), tokens.Token{ID: "t1", Owner: "user:acme:ada", Name: "ci", Spaces: []string{mine, "space:production"}, Created: time.Unix(7, 0).UTC()}, tokens.Hash{1}))
	must(t, s.CreateLogin(t.Context(), logins.Login{ID: "l1", Person: logins.Person{Principal: "user:local:bob", Name: "Bob", Groups: []string{"group:local:a b", "group:local:c"}}, Created: time.Unix(9, 0).UTC(), Expires: time.Unix(10, 0).UTC()}, logins.Hash{2}, time.Time{}))
	must(t, s.UseToken(t.Context(), "t1", time.Unix(8, 0)))
	return s, ids
}

// contents is everything that the interfaces of a store tell.
func contents(t *testing.T, s interface {
	storetest.Protocols
	storetest.Runs
}, ids []run.ID) map[string]any {
	t.Helper()
	ctx, spaces := t.Context(), []string{mine}
	all := map[string]any{}
	put := func(name string, value any, err error) {
		if err != nil && fault.CodeOf(err) != fault.NotFound {
			t.Fatalf("%s = %v", name, err)
		}
		all[name] = value
	}
	list, _, err := s.List(ctx, mine, "", 10)
	put("list", list, err)
	for _, title := range []string{"Kept walrus", "Changed heron", "Deleted otter"} {
		c := storetest.NewChain(mine, title)
		stored, err := s.Chain(ctx, spaces, c.ID)
		put("chain "+title, stored, err)
		versions, err := s.Versions(ctx, spaces, c.ID)
		put("versions "+title, versions, err)
		for _, v := range versions {
			version, err := s.Version(ctx, spaces, c.ID, v.Revision)
			put("version "+title, version, err)
			for _, step := range version.Steps {
				former, err := s.Former(ctx, spaces, step.UUID)
				put("former "+step.UUID, former, err)
				quality, err := s.Quality(ctx, mine, []string{step.UUID})
				put("quality "+step.UUID, quality, err)
			}
			for i := range version.Steps {
				hash := protocol.PassageHash(version.Passage(i))
				known, err := s.Known(ctx, "model", []string{hash})
				put("vector "+hash, known, err)
			}
		}
	}
	runList, _, err := s.AllRuns(ctx, archive.Query{Principal: "somebody", Spaces: spaces, Limit: 10})
	put("runs", runList, err)
	for _, id := range ids {
		r, err := s.Run(ctx, id)
		put("run "+string(id), r, err)
		events, err := s.Events(ctx, id)
		put("events "+string(id), events, err)
		pinned, err := s.Pinned(ctx, r.Pin)
		put("pin "+string(id), pinned, err)
		for _, key := range []string{"nonce:one", "seq:1", "nonce:two"} {
			recorded, found, err := s.Recorded(ctx, id, key)
			put("recorded "+string(id)+key, []any{recorded, found}, err)
		}
	}
	accepted, err := s.Acceptances(ctx, spaces)
	put("acceptances", accepted, err)
	declined, err := s.DeclinesOf(ctx, "me", mine)
	put("declines", declined, err)
	ended, err := s.SessionEnded(ctx, "session")
	put("session", ended, err)
	token, there, err := s.TokenOf(ctx, tokens.Hash{1})
	put("token", []any{token, there}, err)
	login, there, err := s.LoginOf(ctx, logins.Hash{2})
	put("login", []any{login, there}, err)
	return all
}

func TestEverythingMovesFromSQLite(t *testing.T) {
	from, ids := filled(t)
	to := open(t, postgrestest.Start(t).Database(t))
	loaded, err := to.Load(t.Context(), from.Rows(t.Context()), func(postgres.Loaded) {})
	if want := (postgres.Loaded{Protocols: 2, Versions: 3, Runs: 3}); err != nil || loaded != want {
		t.Fatalf("Load = %+v, %v, want %+v", loaded, err, want)
	}
	if diff := cmp.Diff(contents(t, from, ids), contents(t, to, ids)); diff != "" {
		t.Errorf("contents (-SQLite +PostgreSQL):\n%s", diff)
	}
	wantIntact(t, to)
	// A run continues where it is now.
	r, err := to.Run(t.Context(), ids[0])
	must(t, err)
	if err := to.SaveRun(t.Context(), runs.Save{Run: r}); err != nil {
		t.Errorf("SaveRun = %v, want nil", err)
	}
	if _, err := to.Load(t.Context(), from.Rows(t.Context()), func(postgres.Loaded) {}); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("Load(again) = %v, want that the database is not empty", err)
	}
}
