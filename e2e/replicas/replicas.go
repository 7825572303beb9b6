// Package replicas gives tests several real servers that share a PostgreSQL database,
// behind a proxy that takes turns, as an operator runs them.
package replicas

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

// Config says what is started. Everything but More is required.
type Config struct {
	// Program makes a command of the program kairos. Its environment and its stderr are
	// set afterwards.
	Program func(args ...string) *exec.Cmd
	// Drivers is a folder with locked drivers.
	Drivers string
	// Database is the address of a PostgreSQL database.
	Database string
	// Wait is mcp.wait, how long a question of a client may be open in a call.
	Wait string
	// More is added to the configuration of each server.
	More string
}

// Set is several servers and the proxy in front of them.
type Set struct {
	*Proxy
	Servers []*Server
	t       testing.TB
	dir     string
	config  Config
	key     string // with which servers that start now seal questions
}

// Start starts n servers and their proxy, and waits until all are ready. They end with
// the test.
func Start(t testing.TB, n int, c Config) *Set {
	t.Helper()
	s := &Set{t: t, dir: t.TempDir(), config: c}
	s.SetKeys(NewKey())
	if out, err := exec.CommandContext(t.Context(), "openssl", "genpkey", "-algorithm", "ed25519", "-out", filepath.Join(s.dir, "signing.key")).CombinedOutput(); err != nil {
		t.Fatalf("make a key that signs statements: %v\n%s", err, out)
	}
	for i := range n {
		s.Servers = append(s.Servers, s.newServer(i))
	}
	s.Proxy = startProxy(t, s.Servers)
	for _, one := range s.Servers {
		one.Start()
		t.Cleanup(one.Kill)
	}
	for _, one := range s.Servers {
		one.AwaitReady()
	}
	if t.Failed() {
		t.FailNow()
	}
	return s
}

// NewKey makes a key for questions to clients.
func NewKey() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return hex.EncodeToString(key[:])
}

// SetKeys writes the keys that the servers share; each reads them when it starts.
func (s *Set) SetKeys(keys ...string) {
	s.t.Helper()
	text := ""
	for _, key := range keys {
		text += key + "\n"
	}
	s.write("state.key", text)
	s.key = keys[0]
}

// Key is the first one of SetKeys.
func (s *Set) Key() string { return s.key }

func (s *Set) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Server is one of the set.
type Server = programs.Server

func (s *Set) newServer(i int) *Server {
	s.t.Helper()
	one := programs.NewServer(s.t, filepath.Join(s.dir, strconv.Itoa(i)))
	one.Command = func(args ...string) *exec.Cmd {
		cmd := s.config.Program(args...)
		cmd.Env = append(os.Environ(), "KAIROS_CONFIG="+filepath.Join(one.Dir, "kairos.yaml"), "METRICS_PORT=0", "LOG_LEVEL=info",
			"TMPDIR="+one.Dir, "XDG_DATA_HOME="+filepath.Join(one.Dir, "share"))
		return cmd
	}
	if err := os.Mkdir(one.Dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.write(filepath.Join(strconv.Itoa(i), "kairos.yaml"), fmt.Sprintf(`database: %q
admin: {socket: admin.sock}
drivers: {dir: %q}
keys_dir: ..
replica: {address: "http://%s"}
%s`, s.config.Database, s.config.Drivers, one.Address, s.config.more()))
	return one
}

func (c Config) more() string { return "mcp: {wait: " + c.Wait + "}\n" + c.More }
