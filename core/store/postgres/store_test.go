package postgres_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, address string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(address, nil)
	if err != nil {
		t.Fatalf("Open = %v, want nil", err)
	}
	return s
}

func TestStore(t *testing.T) {
	server := postgrestest.Start(t)
	storetest.Run(t, func(t *testing.T) storetest.Store {
		return open(t, server.Database(t))
	})
}
