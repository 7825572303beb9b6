// Command demo-team plays a team server: an identity provider, a server that asks callers who
// they are and keeps everything in PostgreSQL where that is installed, and two agents with
// tokens. An agent asks for an approval that two named people have to give. The owner of its run
// and somebody who is not named are refused, two people who are named log in and approve, and the
// signed statement of the run is verified without the server. It fails if anything deviates.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// limit is far above what the whole demo takes with the provider to be built.
const limit = 5 * time.Minute

func main() {
	bin := flag.String("bin", "bin", "folder of the built programs")
	sqlite := flag.Bool("sqlite", false, "keep everything in SQLite, also where PostgreSQL is installed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, limit)
	err := play(ctx, *bin, *sqlite)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo-team: DEVIATION:", err)
		os.Exit(1)
	}
	fmt.Println("\ndemo-team: everything went as it must")
}

// stage is where the demo plays: programs and a scratch folder with the configuration.
type stage struct {
	ctx    context.Context //nolint:containedctx // the demo is one call
	kairos string
	dir    string
	url    string // of the server
	issuer string
	// database is the file or the address in which the server keeps everything.
	database string
	sqlite   bool // the file is wanted
	ends     []func()
}

func play(ctx context.Context, bin string, sqlite bool) (err error) {
	s := &stage{ctx: ctx, sqlite: sqlite, database: "kairos.db"}
	if s.kairos, err = filepath.Abs(filepath.Join(bin, "kairos")); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "kairos-team-"); err != nil {
		return err
	}
	defer func() {
		for i := len(s.ends) - 1; i >= 0; i-- {
			s.ends[i]()
		}
		if err == nil {
			err = os.RemoveAll(s.dir)
		} else {
			fmt.Fprintln(os.Stderr, "demo-team: what was played is in", s.dir)
		}
	}()
	for _, act := range []func() error{s.startProvider, s.startDatabase, s.startServer, s.deploy} {
		if err := act(); err != nil {
			return err
		}
	}
	return nil
}

func say(format string, args ...any) { fmt.Printf("demo-team: "+format+"\n", args...) }

func (s *stage) startProvider() error {
	say("start the identity provider of the tests (it is built first)")
	cmd := exec.CommandContext(s.ctx, "go", "-C", "e2e/provider", "run", ".")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the provider: %w", err)
	}
	s.ends = append(s.ends, func() { _, _ = in.Close(), cmd.Wait() }) // it ends with its input
	var started struct{ Issuer string }
	if err := json.NewDecoder(out).Decode(&started); err != nil || started.Issuer == "" {
		return fmt.Errorf("the provider says nothing: %w", err)
	}
	s.issuer = started.Issuer
	say("provider at %s", s.issuer)
	return nil
}

var served = regexp.MustCompile(`MCP at (http://\S+)/mcp`)

func (s *stage) startServer() error {
	for _, file := range []string{"kairos.yaml", "deploy.md"} {
		text, err := os.ReadFile(filepath.Join("examples", "demo-team", file))
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("ISSUER"), []byte(s.issuer))
		text = bytes.ReplaceAll(text, []byte("DATABASE"), []byte(s.database))
		if err := os.WriteFile(filepath.Join(s.dir, file), text, 0o600); err != nil {
			return err
		}
	}
	cmd := s.command("", "serve", "--http")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	log, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	s.ends = append(s.ends, func() { _, _ = cmd.Process.Signal(os.Interrupt), cmd.Wait() })
	lines := bufio.NewScanner(log)
	var said []string
	for lines.Scan() {
		said = append(said, lines.Text())
		if at := served.FindStringSubmatch(lines.Text()); at != nil {
			s.url = at[1]
			go func() { _, _ = io.Copy(io.Discard, log) }()
			say("server at %s", s.url)
			return nil
		}
	}
	return fmt.Errorf("the server does not serve:\n%s", strings.Join(said, "\n"))
}

// command is a call of the program in the folder of the demo, with a token or as the operator.
func (s *stage) command(token string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, s.kairos, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "KAIROS_CONFIG="+filepath.Join(s.dir, "kairos.yaml"), "OIDC_CLIENT_SECRET=kairos-secret", "KAIROS_BEARER_TOKEN="+token)
	if token != "" {
		cmd.Args = append(cmd.Args, "--url", s.url)
	}
	return cmd
}

// run runs a command and returns what it prints on both streams.
func (s *stage) run(token string, args ...string) (string, error) {
	out, err := s.command(token, args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kairos %s: %w:\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// reply runs a command whose reply is JSON.
func (s *stage) reply(to any, token string, args ...string) error {
	out, err := s.command(token, append(args, "-o", "json")...).Output()
	failed := (*exec.ExitError)(nil)
	if errors.As(err, &failed) {
		return fmt.Errorf("kairos %s: %w:\n%s", strings.Join(args, " "), err, failed.Stderr)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, to); err != nil {
		return fmt.Errorf("kairos %s: %w in:\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// token makes a token of an agent.
func (s *stage) token(owner, name string, flags ...string) (string, error) {
	var made struct{ Secret string }
	err := s.reply(&made, "", append([]string{"token", "create", "--owner", owner, "--name", name, "--space", "production"}, flags...)...)
	return made.Secret, err
}

// waits is a reply of a run that waits for people.
type waits struct {
	RunID       string `json:"run_id"`
	ApprovalURL string `json:"approval_url"`
	Message     string
}

func (s *stage) deploy() error {
	agent, err := s.token("user:acme:ada", "agent of ada")
	if err != nil {
		return err
	}
	reader, err := s.token("user:acme:dan", "agent of dan", "--may", "read")
	if err != nil {
		return err
	}
	if _, err := s.run(agent, "mint", "--space", "production", "deploy.md"); err != nil {
		return err
	}
	out, err := s.run(reader, "runs", "begin", "Deploy the shop")
	if err == nil || !strings.Contains(out, "needs the right to run in space:production") {
		return fmt.Errorf("an agent that may only read began a run: %s", out)
	}
	say("the agent of dan, whose token only reads, is refused")
	if _, err := s.run(agent, "runs", "begin", "Deploy the shop"); err != nil {
		return err
	}
	var asked waits
	if err := s.reply(&asked, agent, "runs", "next", "Deploy the shop"); err != nil {
		return err
	}
	if asked.ApprovalURL == "" || !strings.Contains(asked.Message, "Approved by 0 of 2 of group:acme:release, other than whoever runs this") {
		return fmt.Errorf("the agent was not told who has to approve: %s", asked.Message)
	}
	say("the agent of ada asks: two of group:release have to approve, other than ada")
	if err := s.approve(asked.ApprovalURL); err != nil {
		return err
	}
	if _, err := s.run(agent, "runs", "next", "Deploy the shop", "--follow", "--solution", `{"shell":{"exit_code":0,"stdout":"live"}}`); err != nil {
		return err
	}
	if _, err := s.run(agent, "runs", "attest", "Deploy the shop", "success", "the shop is live"); err != nil {
		return err
	}
	return s.verify(agent, asked.RunID)
}

// approve lets people open the page one after the other.
func (s *stage) approve(page string) error {
	for _, p := range []struct {
		name, told string
		approves   bool
	}{
		{"ada", "You run this yourself", false},
		{"dan", "No such approval", false}, // neither named, nor in the space
		{"bob", "Approved by 1 of 2", true},
		{"carol", "by user:acme:bob, user:acme:carol", true},
	} {
		began := time.Now()
		told, err := logIn(s.ctx, page, p.name)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if p.approves {
			say("%s logs in at the provider (%d ms) and approves", p.name, time.Since(began).Milliseconds())
			if told, err = told.answer(s.ctx, "approved"); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		if !strings.Contains(told.text, p.told) {
			return fmt.Errorf("%s is shown %s, want %q", p.name, told.text, p.told)
		}
		if !p.approves {
			refused, err := told.answer(s.ctx, "approved")
			if err != nil || refused.status/100 == 2 {
				return fmt.Errorf("%s approved: %s %w", p.name, refused.text, err)
			}
			say("%s is refused: %q", p.name, p.told)
		}
	}
	return nil
}

// verify checks the statement of the run with the public key of the server, and without it.
func (s *stage) verify(agent, id string) error {
	statement, err := s.command(agent, "runs", "export", id).Output()
	if err != nil {
		return fmt.Errorf("export the run: %w", err)
	}
	key, err := s.command("", "runs", "key").Output()
	if err != nil {
		return fmt.Errorf("show the key: %w", err)
	}
	for name, text := range map[string][]byte{"statement.json": statement, "key.txt": bytes.TrimSpace(key)} {
		if err := os.WriteFile(filepath.Join(s.dir, name), text, 0o600); err != nil {
			return err
		}
	}
	out, err := s.run("", "runs", "verify", "statement.json", "--key", "key.txt")
	if err != nil {
		return err
	}
	for _, name := range []string{"user:acme:bob", "user:acme:carol"} {
		if !strings.Contains(out, name) {
			return fmt.Errorf("the statement does not name %s:\n%s", name, out)
		}
	}
	say("the statement verifies offline, and names who approved:\n%s", out)
	return nil
}
