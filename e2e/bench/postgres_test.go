package bench_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
)

// BenchmarkWirePostgres is the program on PostgreSQL and on SQLite in turn, on the same
// processors: whole runs of many clients, and the kairos_next of one beside the floor of
// a store that needs the network, one statement that changes a row and adds another.
func BenchmarkWirePostgres(b *testing.B) {
	database := postgrestest.Start(b).Database(b)
	for b.Loop() {
		client := newClient()
		lite, server := newPlayers(b, "sqlite-", programs(b), client), newPlayers(b, "postgres-", programs(b), client, "KAIROS_DB="+database)
		defer lite.server.stop(b)
		defer server.server.stop(b)
		for range runRounds {
			for _, p := range []*players{lite, server} {
				p.runs.run(b, runClients, p.play(b))
			}
		}
		lite.report(b)
		server.report(b)
		measured.add(least("whole runs on PostgreSQL, 32 clients", server.runs.perSecond()/lite.runs.perSecond(), "x", 0.5).
			over("SQLite: %.0f runs/s", lite.runs.perSecond()))
		alone(b, lite, server, statement(b, database))
	}
	b.ReportMetric(0, "ns/op")
}

// alone measures the kairos_next of one client on both, and one statement, in turn.
func alone(b *testing.B, lite, server *players, statement func()) {
	b.Helper()
	of := map[*players]*runner{}
	took := map[*players]*samples{lite: {}, server: {}}
	for p := range took {
		of[p] = &runner{agent: p.agents[0], uri: mintLong(b, p.agents[0])}
	}
	var one samples
	for range wireSamples {
		for p, all := range took {
			if of[p].left == 0 {
				of[p].begin(b)
			}
			*all = append(*all, of[p].next(b))
		}
		one.measure(statement)
	}
	slower := took[server].p50() - took[lite].p50()
	b.ReportMetric(took[server].p50(), "postgres-1-p50-ms")
	b.ReportMetric(took[lite].p50(), "sqlite-1-p50-ms")
	b.ReportMetric(one.p50(), "statement-ms")
	measured.add(most("kairos_next on PostgreSQL, 1 client, p50, more than on SQLite", slower/one.p50(), "x", 1.5).
		over("one statement: %.2f ms; SQLite %.2f ms", one.p50(), took[lite].p50()))
}

// statement returns one durable statement that changes a row of 2 KB if it has the
// expected revision, and adds one of 1 KB.
func statement(b *testing.B, database string) func() {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), database)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(b.Context()) })
	if _, err := conn.Exec(b.Context(), `CREATE TABLE floor_heads (id int PRIMARY KEY, revision int NOT NULL, v text NOT NULL);
		CREATE TABLE floor_saves (id int PRIMARY KEY, v text NOT NULL);
		INSERT INTO floor_heads VALUES (1, 0, '')`); err != nil {
		b.Fatal(err)
	}
	revision, head, save := 0, strings.Repeat("x", 2000), strings.Repeat("y", 1000)
	return func() {
		tag, err := conn.Exec(b.Context(), `WITH saved AS (UPDATE floor_heads SET revision = revision + 1, v = $2
			WHERE id = 1 AND revision = $1 RETURNING revision) INSERT INTO floor_saves SELECT revision, $3 FROM saved`, revision, head, save)
		if err != nil || tag.RowsAffected() != 1 {
			b.Fatalf("the statement: %v, %s", err, tag)
		}
		revision++
	}
}
