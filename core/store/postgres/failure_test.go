package postgres_test

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func TestFailuresSayWhatToDoAndNoPassword(t *testing.T) {
	server := postgrestest.Start(t)
	if !server.Owned() {
		t.Skip("needs a server that the test has set up")
	}
	const wrong = "other?secret/1"
	address := server.Database(t)
	foreign := server.Database(t)
	newer := server.Database(t)
	standby := server.Database(t)
	for database, statement := range map[string]string{
		foreign: `CREATE TABLE runs (anything TEXT)`,
		newer:   `CREATE TABLE kairos (only_row INTEGER, version INTEGER); INSERT INTO kairos VALUES (1, 999)`,
		standby: `ALTER ROLE kairos IN DATABASE ` + nameOf(t, standby) + ` SET default_transaction_read_only = on`,
	} {
		must(t, postgrestest.Execute(t.Context(), database, statement))
	}
	for name, tc := range map[string]struct {
		address string
		code    fault.Code
		want    []string // of the message and the hint
	}{
		"wrong password":   {server.OverTCP(address, wrong), fault.StoreFailed, []string{`does not let user "kairos" in`, "correct user and password"}},
		"missing database": {server.OverTCP(server.Named("nowhere"), postgrestest.Password), fault.StoreFailed, []string{`has no database "nowhere"`, "createdb --owner kairos nowhere"}},
		"another program":  {foreign, fault.StoreFailed, []string{"tables of another program", "create a database for KAIROS alone"}},
		"newer schema":     {newer, fault.StoreFailed, []string{"newer version of this program", "start that version"}},
		"only reads":       {standby, fault.StoreUnavailable, []string{"only reads", "name the primary server"}},
		"too old":          {oldServer(t), fault.StoreFailed, []string{"has version 9.6.24", "PostgreSQL 13 or newer is required"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, tc.address)
			_, used := s.Run(t.Context(), "any")
			for call, err := range map[string]error{"Check": s.Check(), "Run": used} {
				if fault.CodeOf(err) != tc.code {
					t.Errorf("%s = %v (code %q), want code %q", call, err, fault.CodeOf(err), tc.code)
				}
				var failed *fault.Error
				if !errors.As(err, &failed) {
					continue
				}
				text := failed.Message + " " + failed.Hint
				for _, part := range tc.want {
					if !strings.Contains(text, part) {
						t.Errorf("%s says %q, want it to say %q", call, text, part)
					}
				}
				wantNoPassword(t, err.Error()+text, wrong, postgrestest.Password)
			}
		})
	}
}

// nameOf returns the database of an address.
func nameOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return strings.TrimPrefix(u.Path, "/")
}

func wantNoPassword(t *testing.T, text string, passwords ...string) {
	t.Helper()
	for _, password := range passwords {
		if strings.Contains(text, password) || strings.Contains(text, url.QueryEscape(password)) {
			t.Errorf("%q contains the password %q", text, password)
		}
	}
}

// oldServer speaks the protocol up to the version that it has.
func oldServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				b := pgproto3.NewBackend(conn, conn)
				if _, err := b.ReceiveStartupMessage(); err != nil {
					return
				}
				b.Send(&pgproto3.AuthenticationOk{})
				b.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "9.6.24"})
				b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				if b.Flush() == nil {
					_, _ = b.Receive() // until the client leaves
				}
			}()
		}
	}()
	return "postgres://kairos@" + l.Addr().String() + "/kairos?sslmode=disable"
}

func TestAServerThatIsNotThereIsUnavailable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := "postgres://kairos:hush-hush@" + l.Addr().String() + "/kairos"
	must(t, l.Close())
	s := open(t, address)
	err = s.Check()
	if fault.CodeOf(err) != fault.StoreUnavailable || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("Check = %v, want that the server cannot be reached", err)
	}
	wantNoPassword(t, err.Error(), "hush-hush")
}

func TestAnAddressThatCannotBeReadIsNotShown(t *testing.T) {
	for _, address := range []string{
		"postgres://kairos:hush%zz-hush@localhost/kairos", "postgres://kairos:hush-hush@localhost:port/kairos", "kairos.db",
		"postgres://kairos:hush-hush@localhost/kairos?sslmode=sometimes", "postgres://kairos:hush-hush@localhost/kairos?pool_max_conns=many",
	} {
		_, err := postgres.Open(address, nil)
		if err == nil || !strings.Contains(err.Error(), "cannot be read") || strings.Contains(err.Error(), "hush-hush") || strings.Contains(err.Error(), "hush%zz") {
			t.Errorf("Open = %v, want an error without the password", err)
		}
	}
}

func TestRedacted(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://me:secret@db.example:5433/kairos?sslmode=require": "postgres://me@db.example:5433/kairos",
		"postgresql://db/kairos?user=me&password=secret":              "postgres://db/kairos",
		"postgres:///kairos?host=/run/postgresql":                     "postgres:///kairos?host=/run/postgresql",
		"postgres://me:sec%zzret@db/kairos":                           "postgres://…",
	} {
		if got := postgres.Redacted(address); got != want {
			t.Errorf("Redacted(%s) = %s, want %s", address, got, want)
		}
	}
}

// A caller that asks for a text which PostgreSQL cannot store gets what any unknown
// text gets, and such a text is refused before anything is stored.
func TestTextsThatCannotBeStored(t *testing.T) {
	s := open(t, postgrestest.Start(t).Database(t))
	_, err := s.Run(t.Context(), "a\x00b")
	if fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Run = %v, want not found", err)
	}
	c := storetest.NewChain("user:test", "a\x00b", "One")
	if err := save(s, c); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("SaveChains = %v, want %s", err, fault.InvalidArgument)
	}
	if n, err := s.Count(t.Context(), "user:test"); n != 0 || err != nil {
		t.Errorf("Count = %d, %v, want 0", n, err)
	}
}
