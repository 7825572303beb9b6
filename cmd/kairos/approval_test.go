package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/e2e/programs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const approvedCommand = "# Release\n\n## Ship it\n\nship\n\n```json\n" +
	`{"challenge":{"type":"shell","approval_mode":"user","shell":{"cmd":"ship v1"}}}` + "\n```\n"

// visit opens a link, or answers it with a form, as a browser does.
func visit(t *testing.T, method, link, form string) (status int, page string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, link, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// approveAt reads the page and approves.
func approveAt(t *testing.T, link string) {
	t.Helper()
	if page := decideAt(t, link, "approved"); !strings.Contains(page, "Approved: Ship it") {
		t.Fatalf("after the answer the page is %s", page)
	}
}

// decideAt reads the page and answers, as a person does.
func decideAt(t *testing.T, link, decision string) (after string) {
	t.Helper()
	status, page := visit(t, "GET", link, "")
	digest := regexp.MustCompile(`name="digest" value="([0-9a-f]+)"`).FindStringSubmatch(page)
	if status != 200 || digest == nil || !strings.Contains(page, "ship v1") {
		t.Fatalf("the page is %d %s", status, page)
	}
	status, page = visit(t, "POST", link, url.Values{"decision": {decision}, "digest": {digest[1]}}.Encode())
	if status != 200 {
		t.Fatalf("after the answer the page is %d %s", status, page)
	}
	return page
}

// opensLinks is a client that can open addresses and has no forms.
const opensLinks = `{"elicitation":{"url":{}}}`

// A person answers on the page by themselves, whether their client opened it or
// the agent showed the link, and the call repeated gets on.
func TestClientsWithoutFormsGetOnFromThePage(t *testing.T) {
	long(t)
	t.Parallel()
	// Each client ships the same, which one of them declines.
	b := withShippedDrivers(t, "mcp: {wait: 50s}\napproval: {remember_declines: 0s}\n")
	t.Run("of", func(t *testing.T) {
		for can, play := range map[string]func(s *stage, r *api.StepReply, decision string) *api.StepReply{
			hasNothing: showsLink, opensLinks: opensLink,
		} {
			for _, decision := range []string{"approved", "rejected"} {
				t.Run(can+" "+decision, func(t *testing.T) {
					inBothEras(t, func(t *testing.T, era string) {
						s := &stage{b.visit(t, era, can), t}
						s.decided(play(s, s.begun(s.document(shipDoc), ""), decision), decision)
					})
				})
			}
		}
	})
	for _, via := range []string{"page", "elicitation"} {
		b.routed(2, "shell", "approval", via, "answered", "")
		b.routed(2, "shell", "approval", via, "declined", "USER_DECLINED")
	}
}

const shipDoc = "# %s\n\n## Ship it\n\nship\n\n```json\n" + `{"challenge":{"type":"shell","approval_mode":"user","shell":{"cmd":"ship v1"}}}` + "\n```\n"

// onStages plays with a client in both eras on a server with the configuration.
func onStages(t *testing.T, config, can string, play func(t *testing.T, s *stage, era string)) {
	t.Helper()
	long(t)
	b := withShippedDrivers(t, ""+config)
	inBothEras(t, func(t *testing.T, era string) { play(t, &stage{b.visit(t, era, can), t}, era) })
}

// noResult is the solution of an agent that has not done the step yet.
func noResult(kind string, r *api.StepReply) string {
	return fmt.Sprintf(`,"solution":{"type":%q,"nonce":%q}`, kind, r.Challenge.Nonce)
}

func showsLink(s *stage, r *api.StepReply, decision string) *api.StepReply {
	placeholder := noResult("shell", r)
	r = s.next(r, placeholder).step()
	s.code(r, "WAITING_FOR_USER")
	decideAt(s.t, r.ApprovalURL, decision)
	return s.next(r, placeholder).step()
}

func opensLink(s *stage, r *api.StepReply, decision string) *api.StepReply {
	k := s.next(r, "")
	q := k.ask("elicitation/create")
	var params struct {
		Mode string `json:"mode"`
		URL  string `json:"url"`
	}
	k.decode(q.Params, &params)
	if params.Mode != "url" {
		s.t.Errorf("the client is asked %s, want it to open a page", q.Params)
	}
	decideAt(s.t, params.URL, decision)
	k.answer(q, `{"action":"accept"}`) // that they opened it
	return k.step()
}

// decided checks what a decision is worth: the agent may do the step, or not.
func (s *stage) decided(r *api.StepReply, decision string) {
	s.t.Helper()
	done := s.submit(r, "shell", `{"exit_code":0}`)
	if decision == "rejected" {
		s.code(r, "USER_DECLINED")
		s.code(done.step(), "USER_DECLINED") // nobody is asked again for it
		s.proves(r)
		return
	}
	s.code(r, "")
	if !strings.Contains(r.Message, "approved") {
		s.t.Errorf("after the yes: %s, want the step to be done", r.Message)
	}
	s.proves(done.step(), driver.AgentReported)
}

func TestSettingsOfThePageAreChecked(t *testing.T) {
	for setting, want := range map[string]string{
		"approval: {listen: \"0.0.0.0:3301\"}":              "approval.listen",
		"approval: {listen: \"here\"}":                      "approval.listen",
		"approval: {how: []}":                               "approval.how is an empty list",
		"approval: {how: form}":                             "approval.how",
		"approval: {how: [form, login]}":                    "nobody can log in to this server",
		"approval: {how: [agent, agent]}":                   "twice",
		"approval: {how: [agnet]}":                          "did you mean \"agent\"?",
		"approval: {how: [form]}":                           "(there are agent)",
		"approval: {trust_agent: true}":                     "trust_agent",
		"approval: {typed: true}":                           "typed",
		"http: {public_url: \"kairos.example\"}":            "http.public_url",
		"http: {public_url: \"https://kairos.example/?a\"}": "http.public_url",
	} {
		s := newServed(t)
		s.lock()
		s.configure(setting + "\n")
		out, err := s.program("config", "check").CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %s, want an error that names %s", setting, out, want)
		}
	}
}

var approvalLink = regexp.MustCompile(`\| (http://127\.0\.0\.1:\d+/approve/\S+)`)

// The terminal client sends its person to the page and continues with the
// answer given there, in either era, and as an agent that can open nothing.
func TestThePersonAtTheTerminalApprovesOnThePage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "kairos") // it starts itself by its name
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{
		program: b, filepath.Join(dir, "kairos.yaml"): []byte("database: kairos.db\napproval: {listen: \"127.0.0.1:0\"}\nadmin: {socket: \"off\"}\n"),
		filepath.Join(dir, "ship.md"): []byte(strings.Replace(approvedCommand, "ship v1", "echo ship v1", 1)),
	} {
		if err := os.WriteFile(path, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	drivers := buildDrivers(t)
	for name, args := range map[string][]string{
		"2025":         {"--era", "2025", "--without", "form"},
		"2026":         {"--era", "2026", "--without", "form"},
		"by the agent": {"--without", "elicitation,sampling"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(program, append([]string{"run", filepath.Join(dir, "ship.md"), "--config", filepath.Join(dir, "kairos.yaml")}, args...)...)
			cmd.Env = append(os.Environ(), "KAIROS_DRIVERS_DIR="+drivers, "LOG_LEVEL=error", "TMPDIR="+t.TempDir(), "DISPLAY=", "WAYLAND_DISPLAY=")
			cmd.Stdin = strings.NewReader("yes\nyes\n") // goes to the page, runs the command
			var stderr programs.Output
			cmd.Stderr = &stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			for lines := bufio.NewScanner(out); lines.Scan(); {
				said.WriteString(lines.Text() + "\n")
				if m := approvalLink.FindStringSubmatch(lines.Text()); m != nil {
					approveAt(t, m[1])
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("kairos run: %v\n%s", err, stderr.String())
			}
			if !strings.Contains(said.String(), "\nverified: ") || strings.Count(said.String(), "asks you at an address") != 1 {
				t.Errorf("kairos run said\n%s\nwant one question and the run verified", &said)
			}
		})
	}
}

// An agent that waits for the page gets a decline at once. The decline stands until the operator takes it
// back at the terminal, and then the person is asked again.
func TestADeclineOnThePageStandsUntilItIsTakenBack(t *testing.T) {
	onStages(t, "mcp: {wait: 50s}\napproval: {remember_declines: 0s}\n", hasNothing, func(t *testing.T, s *stage, era string) {
		r := s.begun(s.document(shipDoc), "")
		placeholder := noResult("shell", r)
		asked := s.next(r, placeholder).step()
		s.code(asked, "WAITING_FOR_USER")
		replied := make(chan *api.StepReply, 1)
		go func() {
			defer close(replied)
			replied <- s.next(r, placeholder).step() // waits up to 50 s
		}()
		if page := decideAt(t, asked.ApprovalURL, "rejected"); !strings.Contains(page, "kairos runs undecline "+r.RunID) {
			t.Errorf("after the answer the page is %s", page)
		}
		select {
		case told := <-replied:
			if told == nil {
				t.Fatal("no reply")
			}
			s.code(told, "USER_DECLINED")
		case <-time.After(20 * time.Second):
			t.Fatal("20 s after the decline the agent has no reply")
		}
		stands := s.next(r, placeholder).step()
		s.code(stands, "USER_DECLINED")
		if stands.ApprovalURL != "" || stands.NextCall != nil {
			t.Errorf("the reply %+v offers what is refused", stands)
		}
		out, err := s.b.program("runs", "undecline", r.RunID, "--reason", "the wrong button").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "taken back: step 1") {
			t.Fatalf("kairos runs undecline: %v %s", err, out)
		}
		again := s.next(r, placeholder).step()
		s.code(again, "WAITING_FOR_USER")
		_, page := visit(t, "GET", again.ApprovalURL, "")
		for _, want := range []string{"This was declined at ", "the decline was taken back at ", "the wrong button"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q: %s", want, page)
			}
		}
		decideAt(t, again.ApprovalURL, "approved")
		s.decided(s.next(r, placeholder).step(), "approved")
	})
}

// A headless client declines forms itself, in no time. Another client's person approves the same on the page.
func TestAClientThatAnswersFormsItselfDoesNotSpeakForAnybody(t *testing.T) {
	long(t)
	b := withShippedDrivers(t, "")
	inBothEras(t, func(t *testing.T, era string) {
		headless, other := &stage{b.visit(t, era, hasForms), t}, &stage{b.visit(t, era, hasNothing), t}
		// On a busy machine an answer at once may take as long as a person's. Then another action is tried.
		for i := range 20 {
			doc := strings.Replace(shipDoc, "ship v1", fmt.Sprintf("ship v1 %s %d", strings.ReplaceAll(era, "-", ""), i), 1)
			uri := headless.document(doc)
			r := headless.begun(uri, "")
			placeholder := noResult("shell", r)
			k := headless.next(r, placeholder)
			k.atOnce(k.ask("elicitation/create"), `{"action":"decline"}`)
			told := k.step()
			headless.code(told, "USER_DECLINED")
			if told.ApprovalURL == "" {
				t.Logf("an answer at once took too long: %s", told.Message)
				continue
			}
			if !strings.Contains(told.Message, "faster than a person can") || *told.RetryCount != 0 {
				t.Errorf("to the client's own decline the server says %+v", told)
			}
			waits := headless.next(r, placeholder).step()
			headless.code(waits, "WAITING_FOR_USER")
			if waits.ApprovalURL != told.ApprovalURL {
				t.Errorf("the link changes from %s to %s", told.ApprovalURL, waits.ApprovalURL)
			}
			theirs := other.begun(uri, "")
			asked := other.next(theirs, noResult("shell", theirs)).step()
			other.code(asked, "WAITING_FOR_USER")
			decideAt(t, asked.ApprovalURL, "approved")
			other.decided(other.next(theirs, noResult("shell", theirs)).step(), "approved")
			decideAt(t, told.ApprovalURL, "approved")
			headless.decided(headless.next(r, placeholder).step(), "approved")
			return
		}
		t.Error("this machine never answers at once")
	})
}
