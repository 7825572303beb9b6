package sqlite_test

import (
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/grants"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// testdata/version1.db.gz is what the first released program left, after a
// client had minted the examples and more, replaced one, deleted one, brought
// one run to its end and left two open. It is never made anew.
const version1 = "testdata/version1.db.gz"

// The spaces that are used in it.
const (
	operator = "user:local:operator"
	builtIn  = "space:kairos-app"
)

func unpackVersion1(t *testing.T) string {
	t.Helper()
	return unpack(t, version1)
}

func unpack(t *testing.T, name string) string {
	t.Helper()
	packed, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(t.TempDir(), "kairos.db"), string(content))
}

// raw reads all rows of a query as the file has them, past the store.
func raw(t *testing.T, path, query string) [][]any {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all [][]any
	for rows.Next() {
		row, into := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// chainsOfVersion1 are the protocols as the first program's own rows say.
func chainsOfVersion1(t *testing.T, path string) []protocol.Chain {
	t.Helper()
	var chains []protocol.Chain
	for _, row := range raw(t, path, `SELECT document FROM chains ORDER BY space, title`) {
		var c protocol.Chain
		if err := json.Unmarshal([]byte(row[0].(string)), &c); err != nil {
			t.Fatal(err)
		}
		chains = append(chains, c)
	}
	if len(chains) != 10 {
		t.Fatalf("%s holds %d protocols, want 10", version1, len(chains))
	}
	return chains
}

func TestVersion1KeepsItsProtocols(t *testing.T) {
	path := unpackVersion1(t)
	before := chainsOfVersion1(t, path)
	s := open(t, path)
	defer s.Close()
	for space, want := range map[string]int{operator: 8, builtIn: 2} {
		if got, err := s.Count(t.Context(), space); err != nil || got != want {
			t.Errorf("Count(%s) = %d, %v, want %d, nil", space, got, err, want)
		}
	}
	for _, want := range before {
		t.Run(want.Title, func(t *testing.T) { wantMigrated(t, s, want) })
	}
	if hits, err := s.Search(t.Context(), library.Query{Text: "Removed before the update", Spaces: []string{operator}, Limit: 9}); err != nil ||
		len(hits) > 0 && hits[0].Score > 0.7 {
		t.Errorf("Search(a protocol deleted before) = %v, %v, want it not", hits, err)
	}
}

// wantMigrated checks that a protocol of version 1 is there as it was, at
// revision 1, found, with a history, and can be changed.
func wantMigrated(t *testing.T, s *sqlite.Store, want protocol.Chain) {
	t.Helper()
	want.Revision = 1
	spaces := []string{want.Space}
	got, err := s.Chain(t.Context(), spaces, want.ID)
	if err != nil {
		t.Fatalf("Chain = %v, want nil", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Chain (-want +got):\n%s", diff)
	}
	for i, step := range want.Steps {
		got, at, err := s.StepChain(t.Context(), spaces, step.UUID)
		if err != nil || at != i || got.ID != want.ID {
			t.Errorf("StepChain(step %d) = %d of %q, %v", i, at, got.Title, err)
		}
	}
	hits, err := s.Search(t.Context(), library.Query{Text: want.Title, Spaces: spaces, Limit: 3})
	if err != nil || len(hits) == 0 || hits[0].Chain.ID != want.ID || hits[0].Score < 0.9 || hits[0].Chain.Revision != 1 {
		t.Errorf("Search(title) = %v, %v, want it first with at least 0.9", hits, err)
	}
	versions, err := s.Versions(t.Context(), spaces, want.ID)
	wantVersion := library.Version{
		Revision: 1, Title: want.Title, StepCount: len(want.Steps), ModelID: want.ModelID, SavedAt: want.UpdatedAt.Truncate(time.Second),
	}
	if diff := cmp.Diff([]library.Version{wantVersion}, versions); err != nil || diff != "" {
		t.Errorf("Versions = %v (-want +got):\n%s", err, diff)
	}
	wantEmbeddable(t, s, want)

	changed := want
	changed.Description += "\n\nChanged after the update."
	if revisions, err := s.SaveChains(t.Context(), []library.Change{{Chain: changed, Replaces: 1}}); err != nil || !slices.Equal(revisions, []int64{2}) {
		t.Errorf("SaveChains over revision 1 = %v, %v, want [2], nil", revisions, err)
	}
	old, err := s.Version(t.Context(), spaces, want.ID, 1)
	if err != nil || !cmp.Equal(want, old) {
		t.Errorf("Version(1) = %v, %v, want it as it was", old, err)
	}
}

// wantEmbeddable checks that the passages of the steps are missing a vector.
func wantEmbeddable(t *testing.T, s *sqlite.Store, c protocol.Chain) {
	t.Helper()
	missing, err := s.Missing(t.Context(), "test/model/2", 1000)
	if err != nil {
		t.Fatalf("Missing = %v, want nil", err)
	}
	for i := range c.Steps {
		want := library.Passage{Hash: protocol.PassageHash(c.Passage(i)), Text: c.Passage(i)}
		if !slices.Contains(missing, want) {
			t.Errorf("Missing does not list step %d", i)
		}
	}
}

func TestVersion1KeepsItsRuns(t *testing.T) {
	path := unpackVersion1(t)
	stored := raw(t, path, `SELECT id, revision, state, document, pin, live FROM runs ORDER BY id`)
	if len(stored) != 3 {
		t.Fatalf("%s holds %d runs, want 3", version1, len(stored))
	}
	eventsOf := map[string]int{}
	for _, row := range raw(t, path, `SELECT run, json_array_length(document) FROM events`) {
		eventsOf[row[0].(string)] += int(row[1].(int64))
	}
	recorded := raw(t, path, `SELECT run, key, payload FROM recorded`)
	s := open(t, path)
	defer s.Close()
	for _, row := range stored {
		id := run.ID(row[0].(string))
		var want run.Run
		if err := json.Unmarshal([]byte(row[3].(string)), &want); err != nil {
			t.Fatal(err)
		}
		got, err := s.Run(t.Context(), id)
		if err != nil || got.Revision != row[1].(int64) || string(got.State) != row[2].(string) {
			t.Errorf("Run(%s) = %+v, %v, want what its row says", id, got, err)
		}
		events, err := s.Events(t.Context(), id)
		if err != nil || len(events) != eventsOf[string(id)] {
			t.Errorf("Events(%s) = %d, %v, want %d", id, len(events), err, eventsOf[string(id)])
		}
		wantPast(t, row[3].(string), got.Recall(run.Run{}, events))
		if pin, err := s.Pinned(t.Context(), row[4].(string)); err != nil || len(pin.Steps) != got.StepCount {
			t.Errorf("Pinned(%s) = %d steps, %v, want %d", id, len(pin.Steps), err, got.StepCount)
		}
		if row[5].(int64) == 0 {
			continue
		}
		if err := s.SaveRun(t.Context(), runs.Save{Run: got, Events: []run.Event{{Kind: run.Asked, Run: id}}}); err != nil {
			t.Errorf("SaveRun(%s) = %v, want an open run to continue", id, err)
		}
	}
	for _, row := range recorded {
		got, found, err := s.Recorded(t.Context(), run.ID(row[0].(string)), row[1].(string))
		if err != nil || !found || got.Payload != row[2].(string) {
			t.Errorf("Recorded(%v) = %v, %v, %v, want it", row, got, found, err)
		}
	}
	if len(recorded) == 0 || len(eventsOf) == 0 {
		t.Errorf("%s holds %d recorded replies, events of %d runs, want some", version1, len(recorded), len(eventsOf))
	}
}

// wantPast compares what a run recalls with the document of a version that stored
// the past with the run.
func wantPast(t *testing.T, document string, got run.Run) {
	t.Helper()
	var want struct {
		Proofs   []*run.Proof    `json:"proofs"`
		Evidence []*run.Evidence `json:"evidence"`
		Nonces   []string        `json:"nonces"`
		SolvedBy []string        `json:"solved_by"`
	}
	if err := json.Unmarshal([]byte(document), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(run.Past(want), got.Past); diff != "" {
		t.Errorf("the past of run %s (-want +got):\n%s", got.ID, diff)
	}
	if err := got.Verify(); err != nil {
		t.Errorf("Verify(%s) = %v, want the chain whole", got.ID, err)
	}
}

// testdata/version8.db.gz is what the last program left that stored each run whole:
// one run attested after an attempt failed, one attested and redacted at step 2, one
// abandoned, and one open with a nonce that was issued again. It is never made anew.
const version8 = "testdata/version8.db.gz"

func TestVersion8SplitsItsRuns(t *testing.T) {
	path := unpack(t, version8)
	stored := raw(t, path, `SELECT id, document FROM runs ORDER BY id`)
	nonces := raw(t, path, `SELECT nonce, run, live FROM nonces JOIN runs ON id = run`)
	recorded := raw(t, path, `SELECT run, key, payload, reply FROM recorded`)
	if len(stored) != 4 || len(nonces) < 8 || len(recorded) < 6 {
		t.Fatalf("%s holds %d runs, %d nonces, %d replies", version8, len(stored), len(nonces), len(recorded))
	}
	s := open(t, path)
	defer s.Close()
	redacted := 0
	for _, row := range stored {
		r, err := s.Run(t.Context(), run.ID(row[0].(string)))
		if err != nil {
			t.Fatal(err)
		}
		events, err := s.Events(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		wantPast(t, row[1].(string), r.Recall(run.Run{}, events))
		for _, e := range events {
			if e.Kind == run.Redacted {
				redacted++
			}
		}
	}
	if redacted != 1 {
		t.Errorf("%d redactions, want 1", redacted)
	}
	for _, row := range nonces {
		id, err := s.RunOfNonce(t.Context(), row[0].(string))
		if live := row[2].(int64) == 1; live && (err != nil || id != run.ID(row[1].(string))) || !live && fault.CodeOf(err) != fault.NotFound {
			t.Errorf("RunOfNonce(live %t) = %q, %v", live, id, err)
		}
	}
	for _, row := range recorded {
		got, found, err := s.Recorded(t.Context(), run.ID(row[0].(string)), row[1].(string))
		if err != nil || !found || got.Payload != row[2].(string) || string(got.Reply) != row[3].(string) {
			t.Errorf("Recorded(%v) = %v, %v, %v, want it", row, got, found, err)
		}
	}
	if damages, err := s.Integrity(t.Context()); err != nil || len(damages) > 0 {
		t.Errorf("Integrity = %v, %v, want no damage", damages, err)
	}
	if left := raw(t, path, `SELECT count(*) FROM sqlite_schema WHERE name IN ('events', 'recorded', 'nonces', 'runs_whole')`)[0][0]; left != int64(0) {
		t.Errorf("%v of the old tables are left", left)
	}
}

// testdata/version10.db.gz is what the last program left that packed nothing: the
// runs of version 8, two runs of a later program, one of them open, and protocols,
// one of them replaced and one deleted. It is never made anew.
const version10 = "testdata/version10.db.gz"

func TestVersion10PacksWhatHappenedInRuns(t *testing.T) {
	path := unpack(t, version10)
	stored := raw(t, path, `SELECT r.id, s.id & 1048575, s.document, s.replies FROM saves s JOIN runs r ON r.number = s.id >> 20 ORDER BY s.id`)
	if len(stored) < 25 {
		t.Fatalf("%s holds %d saves", version10, len(stored))
	}
	pins := raw(t, path, `SELECT digest, document FROM pins`)
	s := open(t, path)
	defer s.Close()
	for _, row := range pins {
		var want protocol.Chain
		if err := json.Unmarshal([]byte(row[1].(string)), &want); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Pinned(t.Context(), row[0].(string)); err != nil || !cmp.Equal(want, got) {
			t.Errorf("Pinned = %v, %v, want %v", got, err, want)
		}
	}
	if all, _, err := s.AllRuns(t.Context(), archive.Query{Principal: "local", Spaces: []string{operator}, Limit: 10}); err != nil || len(all) != 6 {
		t.Errorf("AllRuns = %d runs, %v, want 6", len(all), err)
	}
	for _, row := range stored {
		var want struct {
			Events   []run.Event
			Recorded []runs.Recorded
		}
		if err := json.Unmarshal([]byte(row[2].(string)), &want); err != nil {
			t.Fatal(err)
		}
		id, revision := run.ID(row[0].(string)), row[1].(int64)
		got, err := s.EventsBetween(t.Context(), id, revision-1, revision)
		if diff := cmp.Diff(want.Events, got); err != nil || diff != "" {
			t.Errorf("EventsBetween(%s, %d) = %v (-want +got):\n%s", id, revision, err, diff)
		}
		for _, w := range want.Recorded {
			got, found, err := s.Recorded(t.Context(), id, w.Key)
			if diff := cmp.Diff(w, got); err != nil || !found || diff != "" {
				t.Errorf("Recorded(%s, %s) = %v, %v (-want +got):\n%s", id, w.Key, found, err, diff)
			}
		}
	}
	if damages, err := s.Integrity(t.Context()); err != nil || len(damages) > 0 {
		t.Errorf("Integrity = %v, %v, want no damage", damages, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var before, after int64
	for _, row := range stored {
		before += int64(len(row[2].(string)))
	}
	if after = raw(t, path, `SELECT sum(length(document)) FROM saves`)[0][0].(int64); after*3 > before {
		t.Errorf("%d bytes of saves are packed into %d, want less than a third", before, after)
	}
}

func TestVersion10PacksItsProtocols(t *testing.T) {
	path := unpack(t, version10)
	stored := raw(t, path, `SELECT space, id, revision, document, 1 FROM chains
		UNION ALL SELECT space, id, revision, document, 0 FROM versions WHERE document IS NOT NULL`)
	listed := raw(t, path, `SELECT space, id, revision, title, json_array_length(outline, '$.steps'), outline ->> '$.model_id' FROM chains`)
	if len(stored) != 11 || len(listed) != 9 {
		t.Fatalf("%s holds %d versions of %d protocols, want 11 of 9", version10, len(stored), len(listed))
	}
	s := open(t, path)
	defer s.Close()
	for _, row := range stored {
		spaces, id, revision := []string{row[0].(string)}, row[1].(string), row[2].(int64)
		var want protocol.Chain
		if err := json.Unmarshal([]byte(row[3].(string)), &want); err != nil {
			t.Fatal(err)
		}
		want.Revision = revision
		if got, err := s.Version(t.Context(), spaces, id, revision); err != nil || !cmp.Equal(want, got) {
			t.Errorf("Version(%q, %d) = %v (-want +got):\n%s", want.Title, revision, err, cmp.Diff(want, got))
		}
		if row[4].(int64) == 0 {
			continue
		}
		if got, err := s.Chain(t.Context(), spaces, id); err != nil || !cmp.Equal(want, got) {
			t.Errorf("Chain(%q) = %v (-want +got):\n%s", want.Title, err, cmp.Diff(want, got))
		}
		hits, err := s.Search(t.Context(), library.Query{Text: want.Title, Spaces: spaces, Limit: 1})
		if err != nil || len(hits) != 1 || hits[0].Chain.ID != id {
			t.Errorf("Search(%q) = %v, %v, want it", want.Title, hits, err)
		}
	}
	for _, row := range listed {
		versions, err := s.Versions(t.Context(), []string{row[0].(string)}, row[1].(string))
		if err != nil || len(versions) == 0 {
			t.Fatalf("Versions = %v, %v, want some", versions, err)
		}
		got, want := versions[0], library.Version{Revision: row[2].(int64), Title: row[3].(string), StepCount: int(row[4].(int64)), ModelID: row[5].(string)}
		if got.SavedAt = (time.Time{}); got != want {
			t.Errorf("Versions(%q) begins with %+v, want %+v", want.Title, got, want)
		}
	}
	if damages, err := s.Integrity(t.Context()); err != nil || len(damages) > 0 {
		t.Errorf("Integrity = %v, %v, want no damage", damages, err)
	}
}

func TestVersion7KeepsItsGrantsAndLearnsOfDeclines(t *testing.T) {
	path := unpack(t, version8)
	granted := grants.Grant{ID: "01890000-0000-7000-8000-00000000000a", Space: operator, Protocol: "p", Step: 1, Driver: "tools", Effect: driver.EffectReads, By: "me"}
	document, err := json.Marshal(granted)
	if err != nil {
		t.Fatal(err)
	}
	script(t, path, `DROP TABLE declines; DELETE FROM schema_version WHERE version = 8;
		INSERT INTO grants VALUES ('`+granted.ID+`', '`+operator+`', 'p', '`+string(document)+`')`)

	s := open(t, path)
	defer s.Close()
	if kept, err := s.GrantsFor(t.Context(), operator, "p"); err != nil || !cmp.Equal(kept, []grants.Grant{granted}) {
		t.Errorf("GrantsFor = %+v, %v, want the grant", kept, err)
	}
	declined := declines.Decline{Principal: "me", Space: operator, Key: "a", Run: "r", At: time.Unix(1, 0).UTC()}
	if err := s.SaveDecline(t.Context(), declined, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.DeclinesOf(t.Context(), "me", operator); err != nil || !cmp.Equal(got, []declines.Decline{declined}) {
		t.Errorf("DeclinesOf = %+v, %v, want %+v", got, err, declined)
	}
}

// manyMore makes the file large enough for its update to take a while.
const manyMore = `
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
INSERT INTO chains (space, id, title, outline, document)
SELECT 'user:many', 'id-' || i, 'Many ' || i,
	json_set(outline, '$.title', 'Many ' || i, '$.id', 'id-' || i, '$.space', 'user:many'),
	json_set(document, '$.title', 'Many ' || i, '$.id', 'id-' || i, '$.space', 'user:many')
FROM n, chains c WHERE c.title = 'Announce maintenance';
INSERT INTO steps (chain, position, uuid)
SELECT c.key, s.position, s.uuid FROM chains c, steps s WHERE c.space = 'user:many'
	AND s.chain = (SELECT key FROM chains WHERE title = 'Announce maintenance');`

func TestKilledUpdateLeavesTheOldVersion(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	large := script(t, unpackVersion1(t), manyMore)
	content, err := os.ReadFile(large)
	if err != nil {
		t.Fatal(err)
	}
	whole := updateTime(t, content)
	outcomes := map[int64]int{}
	for round := range rounds {
		path := write(t, filepath.Join(t.TempDir(), "kairos.db"), string(content))
		cmd := child(t.Context(), t, "count-protocols", path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		within := whole
		if round%2 == 0 {
			within /= 3 // the schema comes first, then the search index
		}
		kill := time.AfterFunc(rand.N(within), func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // killed, or finished just before
		kill.Stop()

		version := raw(t, path, `SELECT max(version) FROM schema_version`)[0][0].(int64)
		tables := raw(t, path, `SELECT count(*) FROM sqlite_schema WHERE name IN ('versions', 'ratings')`)[0][0].(int64)
		if version != 1 && tables != 2 || version == 1 && tables != 0 {
			t.Errorf("killed while updating: version %d with %d of the new tables", version, tables)
		}
		outcomes[version]++
		wantUpdated(t, path)
	}
	t.Logf("versions after the kill: %v; an update takes %v", outcomes, whole)
}

// updateTime is how long a process takes that is not killed.
func updateTime(t *testing.T, content []byte) time.Duration {
	t.Helper()
	path := write(t, filepath.Join(t.TempDir(), "kairos.db"), string(content))
	began := time.Now()
	if out, err := child(t.Context(), t, "count-protocols", path).CombinedOutput(); err != nil {
		t.Fatalf("child = %v: %s", err, out)
	}
	return time.Since(began)
}

// countProtocols makes the store open its file.
func countProtocols(s *sqlite.Store) error {
	n, err := s.Count(context.Background(), "user:many")
	if err == nil && n != 400 {
		err = fmt.Errorf("%d protocols, want 400", n)
	}
	return err
}

// wantUpdated opens the file and looks for what was in it.
func wantUpdated(t *testing.T, path string) {
	t.Helper()
	s := open(t, path)
	defer s.Close()
	if err := countProtocols(s); err != nil {
		t.Errorf("after the kill: %v", err)
	}
	for _, i := range []int{1, 1 + rand.IntN(400), 400} {
		title := fmt.Sprintf("Many %d", i)
		hits, err := s.Search(t.Context(), library.Query{Text: title, Spaces: []string{"user:many"}, Limit: 1})
		if err != nil || len(hits) != 1 || hits[0].Chain.Title != title {
			t.Errorf("Search(%q) after the kill = %v, %v, want it", title, hits, err)
		}
	}
	if _, err := s.Former(t.Context(), []string{"user:many"}, "nothing"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Former(nothing) after the kill = %v, want not found", err)
	}
}
