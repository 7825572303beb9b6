package clients_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	find "github.com/kairos-mcp/kairos/e2e/programs"
)

// recordArgument makes this test program a recorder: what follows is a file and the
// command of a server over stdio.
const recordArgument = "record-a-server"

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == recordArgument {
		os.Exit(record(os.Args[2], os.Args[3:]))
	}
	code := m.Run()
	if built.isNew {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built are KAIROS and the calendar, for all tests.
var built struct {
	sync.Once
	dir   string
	isNew bool
	err   error
}

// frame is a line that a program and its server exchanged.
type frame struct {
	From string // program or server; started and ended are notes of the recorder
	PID  int    // of the server
	Line string
}

// record runs a server and writes both directions to a file.
func record(file string, command []string) int {
	log, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = log.Close() }() // each line is written when it comes
	server := exec.Command(command[0], command[1:]...)
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	out, err := server.StdoutPipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := server.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var mu sync.Mutex // guards log
	note := func(from, line string) {
		mu.Lock()
		defer mu.Unlock()
		text, _ := json.Marshal(frame{from, server.Process.Pid, line}) // texts
		_, _ = log.Write(append(text, '\n'))
	}
	note("started", "")
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		for s := range signals {
			_ = server.Process.Signal(s)
		}
	}()
	go func() {
		pass(os.Stdin, in, func(line string) { note("program", line) })
		_ = in.Close() // so that the server ends
	}()
	pass(out, os.Stdout, func(line string) { note("server", line) })
	_ = server.Wait() // its state is noted
	note("ended", server.ProcessState.String())
	return server.ProcessState.ExitCode() & 0x7f
}

// pass copies lines and notes them.
func pass(from io.Reader, to io.Writer, note func(line string)) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			note(strings.TrimRight(line, "\n"))
			if _, err := io.WriteString(to, line); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// frames are those of a recording; none: no server was started.
func frames(file string) (all []frame) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for _, line := range strings.Split(string(text), "\n") {
		var f frame
		if json.Unmarshal([]byte(line), &f) == nil {
			all = append(all, f)
		}
	}
	return all
}

// findPrograms are KAIROS and the calendar.
func findPrograms(t *testing.T) string {
	t.Helper()
	built.Do(func() { built.dir, built.isNew, built.err = find.Find(t.Context()) })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}
