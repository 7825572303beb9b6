package storetest

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// Versioned is one database that programs with different versions of the schema use.
type Versioned struct {
	// Open opens it as a program that has the migrations beyond its own.
	Open func(t *testing.T, migrations ...string) Protocols
	// Predate makes it a database of a build from before version 1.
	Predate func(t *testing.T)
}

// invented is a migration to a version 2 of the schema.
const invented = `CREATE TABLE invented (id TEXT NOT NULL); INSERT INTO invented VALUES ('one')`

// RunUpgrade checks how programs use a database whose schema has another version. empty
// returns an empty database.
func RunUpgrade(t *testing.T, empty func(t *testing.T) Versioned) {
	for name, check := range map[string]func(*testing.T, Versioned, protocol.Chain){
		"a newer program updates the schema once": upgradesOnce,
		"a failed migration changes nothing":      failedMigration,
		"an earlier build's database is refused":  predating,
	} {
		t.Run(name, func(t *testing.T) {
			v := empty(t)
			s := v.Open(t)
			c := NewChain(mine, "Feeding herons", "Catch")
			mustSave(t, s, c)
			mustClose(t, s)
			check(t, v, c)
		})
	}
}

func mustClose(t *testing.T, s Protocols) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
}

// wantRefused checks that a program does not use the database, and says why.
func wantRefused(t *testing.T, s Protocols, why string) {
	t.Helper()
	for range 2 { // the refusal changed nothing
		_, err := s.Count(t.Context(), mine)
		if fault.CodeOf(err) != fault.StoreFailed || !strings.Contains(err.Error(), why) {
			t.Errorf("Count = %v, want the code %s and %q", err, fault.StoreFailed, why)
		}
	}
	mustClose(t, s)
}

func upgradesOnce(t *testing.T, v Versioned, c protocol.Chain) {
	for _, title := range []string{"Feeding otters", "Feeding walruses"} {
		s := v.Open(t, invented)
		wantStored(t, s, at(c, 1))
		c = NewChain(mine, title, "Catch")
		mustSave(t, s, c)
		mustClose(t, s)
	}
	wantRefused(t, v.Open(t), "a newer version of this program")
	s := v.Open(t, invented)
	wantStored(t, s, at(c, 1))
	mustClose(t, s)
}

func failedMigration(t *testing.T, v Versioned, c protocol.Chain) {
	s := v.Open(t, invented, `CREATE TABLE another (id TEXT); INSERT INTO nowhere VALUES (1)`)
	if _, err := s.Count(t.Context(), mine); err == nil {
		t.Error("Count after a migration that fails = nil, want an error")
	}
	mustClose(t, s)
	s = v.Open(t)
	wantStored(t, s, at(c, 1))
	mustClose(t, s)
}

func predating(t *testing.T, v Versioned, _ protocol.Chain) {
	v.Predate(t)
	wantRefused(t, v.Open(t), "an earlier build of KAIROS made it")
	wantRefused(t, v.Open(t, invented), "an earlier build of KAIROS made it")
}
