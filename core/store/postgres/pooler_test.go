package postgres_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// TestBehindATransactionPooler runs two servers through pgbouncer with fewer
// connections than they have calls, so that every transaction gets another session.
func TestBehindATransactionPooler(t *testing.T) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if _, err := os.Stat("/usr/sbin/pgbouncer"); err != nil {
			t.Skip("PGBOUNCER IS MISSING: install the package pgbouncer")
		}
		program = "/usr/sbin/pgbouncer"
	}
	server := postgrestest.Start(t)
	if !server.Owned() {
		t.Skip("needs a server that the test has set up")
	}
	address := through(t, program, server, server.Database(t))
	one, other := open(t, address), open(t, address)
	id := newRun(t, one)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		c := &counter{store: other, id: newRun(t, one)}
		all.Go(func() { c.count(t, stop) })
		defer func() { wantCounted(t, one, c.id, c.acknowledged.Load()) }()
	}
	mintReplaceDelete(t, one, other, "user:a", "walrus", 12)
	c := storetest.NewChain("user:a", "Once more", "One")
	if err := save(one, c); err != nil {
		t.Errorf("SaveChains = %v, want nil", err)
	}
	if stored, err := other.Chain(t.Context(), []string{"user:a"}, c.ID); err != nil || stored.Title != c.Title {
		t.Errorf("Chain = %q, %v, want %q", stored.Title, err, c.Title)
	}
	if err := one.CheckWrite(t.Context()); err != nil {
		t.Errorf("CheckWrite = %v, want nil", err)
	}
	close(stop)
	all.Wait()
	wantCounted(t, other, id, 0)
	wantIntact(t, one)
}

// through starts a pgbouncer for the server and returns the address of the database
// behind it.
func through(t *testing.T, program string, server *postgrestest.Server, address string) string {
	t.Helper()
	folder, err := os.MkdirTemp("/tmp", "kairos-pgb-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	must(t, l.Close())
	direct := server.OverTCP(address, postgrestest.Password)
	for file, text := range map[string]string{
		"users": fmt.Sprintf("\"kairos\" \"%s\"\n", postgrestest.Password),
		"ini": fmt.Sprintf(`[databases]
%s = host=127.0.0.1 port=%d user=kairos
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
auth_type = plain
auth_file = %s/users
pool_mode = transaction
default_pool_size = 3
max_client_conn = 100
`, nameOf(t, address), server.Port(), port, folder),
	} {
		must(t, os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644))
	}
	must(t, os.Chmod(folder, 0o755))
	cmd := exec.Command(program, filepath.Join(folder, "ini"))
	owner, err := postgrestest.Owner() // it refuses to run as root, too
	must(t, err)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pooled := strings.Replace(direct, fmt.Sprintf(":%d/", server.Port()), fmt.Sprintf(":%d/", port), 1)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = postgrestest.Execute(t.Context(), pooled+"?default_query_exec_mode=exec", "SELECT 1"); err == nil {
			return pooled
		}
	}
	t.Fatalf("pgbouncer did not start: %v", err)
	return ""
}
