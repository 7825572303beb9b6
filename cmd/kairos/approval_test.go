package main

import (
	"bufio"
	"encoding/json"
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

// withPage is a folder whose approvals end at the page.
func withPage(t *testing.T, config string) *served {
	t.Helper()
	s := newServed(t)
	b, err := os.ReadFile(buildDrivers(t) + "/kairos-driver-page")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("kairos-driver-page"), b, 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("tree.yaml", strings.Replace(shellTree, "config.approval.trust_agent'}]", "config.approval.trust_agent'}, {via: page}]", 1))
	s.configure(config)
	s.lock()
	return s
}

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

// waits is what of a step's reply these tests look at.
type waits struct {
	ErrorCode   string `json:"error_code"`
	ApprovalURL string `json:"approval_url"`
	Message     string `json:"message"`
	Challenge   struct {
		Nonce string `json:"nonce"`
	} `json:"challenge"`
}

// playToPage plays a run until its link is there and through the approval.
func playToPage(t *testing.T, call func(tool string, args map[string]any) json.RawMessage) {
	t.Helper()
	step := func(tool string, args map[string]any) (r waits) {
		t.Helper()
		if err := json.Unmarshal(call(tool, args), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	var minted struct {
		Items []struct {
			URI string `json:"uri"`
		} `json:"items"`
	}
	if err := json.Unmarshal(call("kairos_mint", map[string]any{"markdown_doc": approvedCommand, "llm_model_id": "test"}), &minted); err != nil {
		t.Fatal(err)
	}
	uri := minted.Items[0].URI
	open := step("kairos_begin", map[string]any{"uri": uri})
	again := map[string]any{"uri": uri, "solution": map[string]any{"type": "shell", "nonce": open.Challenge.Nonce}}
	asked := step("kairos_next", again)
	if asked.ErrorCode != "WAITING_FOR_USER" || asked.ApprovalURL == "" {
		t.Fatalf("reply = %+v, want a link", asked)
	}
	approveAt(t, asked.ApprovalURL)
	if r := step("kairos_next", again); r.ErrorCode != "" || !strings.Contains(r.Message, "approved") {
		t.Errorf("reply = %+v, want the approved step", r)
	}
}

func TestApprovalsAreGivenOnThePageOfTheRealProgram(t *testing.T) {
	t.Parallel()
	t.Run("http", func(t *testing.T) {
		s := withPage(t, "")
		l := s.startHTTP()
		playToPage(t, func(tool string, args map[string]any) json.RawMessage {
			var reply map[string]any
			if tool == "kairos_mint" {
				_, reply = l.request("POST", "/api/kairos_mint/raw?llm_model_id=test", "text/markdown", approvedCommand)
			} else {
				reply = l.rest(tool, args)
			}
			b, err := json.Marshal(reply)
			if err != nil {
				t.Fatal(err)
			}
			return b
		})
	})
	t.Run("stdio, where a page is configured", func(t *testing.T) {
		s := withPage(t, "approval: {listen: \"127.0.0.1:0\"}\n")
		s.start()
		playToPage(t, s.tool)
	})
	t.Run("stdio, where none is", func(t *testing.T) {
		s := withPage(t, "")
		s.start()
		uri := s.call("kairos_mint", map[string]any{"markdown_doc": approvedCommand, "llm_model_id": "test"}).Items[0].URI
		if r := s.call("kairos_begin", map[string]any{"uri": uri}); r.ErrorCode != "APPROVAL_UNAVAILABLE" {
			t.Errorf("reply = %+v, want that nobody can be asked", r)
		}
	})
}

// opensLinks is a client that can open addresses and has no forms.
const opensLinks = `{"elicitation":{"url":{}}}`

// A person answers on the page by themselves, whether their client opened it or
// the agent showed the link, and the call repeated gets on.
func TestClientsWithoutFormsGetOnFromThePage(t *testing.T) {
	long(t)
	t.Parallel()
	// Each client ships the same, which one of them declines.
	b := withShippedDrivers(t, "http: {rate: {per_minute: -1}}\nmcp: {plain_wait: 50s}\napproval: {remember_declines: 0s}\n")
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
	b := withShippedDrivers(t, "http: {rate: {per_minute: -1}}\n"+config)
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
		"approval: {approvers: [\" \"]}":                    "approval.approvers",
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
	onStages(t, "mcp: {plain_wait: 50s}\napproval: {remember_declines: 0s}\n", hasNothing, func(t *testing.T, s *stage, era string) {
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

const payDoc = "# %s\n\n## Read it\n\nx\n\n```json\n" + `{"challenge":{"type":"shell","name":"bill","shell":{"cmd":"cat bill"}}}` + "\n```\n\n## Pay it\n\npay\n\n```json\n" +
	`{"challenge":{"type":"shell","approval_mode":"user","shell":{"cmd":"pay mallory {{ steps.bill.stdout }}"}}}` + "\n```\n"

// However long what an agent wants approved is, the person is asked in their form, and the agent gets no link with which it could
// approve itself.
func TestALongApprovalGivesTheAgentNoLink(t *testing.T) {
	onStages(t, "", hasForms, func(t *testing.T, s *stage, era string) {
		r := s.begun(s.document(payDoc), "")
		r = s.submit(r, "shell", fmt.Sprintf(`{"exit_code":0,"stdout":%q}`, era+strings.Repeat("n", 33_000)+"END")).step()
		placeholder := noResult("shell", r)
		k := s.next(r, placeholder)
		q := k.ask("elicitation/create")
		link := regexp.MustCompile(`http://\S+/approve/\S+`).FindString(q.text())
		if len(q.text()) > 6000 || link == "" || !strings.Contains(q.text(), "pay mallory") || !strings.Contains(q.text(), "nnnEND") {
			t.Fatalf("the form says %s", q.text())
		}
		status, page := visit(t, "GET", link, "")
		if status != 200 || strings.Contains(page, "<form") || !strings.Contains(page, "nnnEND") {
			t.Errorf("the page of the whole is %d %.2000s", status, page)
		}
		digest := regexp.MustCompile(`Digest of what you approve: ([0-9a-f]{64})`).FindStringSubmatch(q.text())
		if digest == nil || !strings.Contains(page, digest[1]) {
			t.Fatalf("the form says %s", q.text())
		}
		if status, _ := visit(t, "POST", link, url.Values{"decision": {"approved"}, "digest": {digest[1]}}.Encode()); status != 422 {
			t.Errorf("an approval at that page is %d, want 422", status)
		}
		k.answer(q, `{"action":"decline"}`)
		no := k.step()
		s.code(no, "USER_DECLINED")
		k = s.next(r, noResult("shell", no))
		k.answer(k.ask("elicitation/create"), `{"action":"decline"}`)
		if no = k.step(); no.ApprovalURL != "" {
			t.Errorf("the agent gets the link %s", no.ApprovalURL)
		}
	})
}

// A trusted agent whose client cannot show the form that it declares makes the call that the reply gives, and gets on.
func TestATrustedAgentMakesTheCallThatItIsGiven(t *testing.T) {
	onStages(t, "approval: {trust_agent: true}\n", hasForms, func(t *testing.T, s *stage, era string) {
		r := s.begun(s.document(shipDoc), "")
		k := s.next(r, noResult("shell", r))
		for asked := 0; ; asked++ {
			h := k.hear()
			if h.reply != nil {
				r = h.reply
				break
			}
			if asked > 3 || h.question == nil || era == modernEra {
				t.Skipf("a client of this era tells of no error: %s", h)
			}
			k.refuse(h.question, -32603)
		}
		if r.NextCall == nil || r.Challenge.Type != "user_input" {
			t.Fatalf("reply = %+v, want the call that reports the person's decision", r)
		}
		var given struct {
			URI      string         `json:"uri"`
			Solution map[string]any `json:"solution"`
		}
		if err := json.Unmarshal(r.NextCall.Arguments, &given); err != nil {
			t.Fatal(err)
		}
		given.Solution["user_input"] = map[string]any{"confirmation": "approved"}
		call, err := json.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		k = s.call("kairos_next", string(call))
		h := k.hear()
		if h.reply == nil {
			t.Fatalf("the server says %s, want a reply", h)
		}
		s.code(h.reply, "")
		s.decided(h.reply, "approved")
	})
}

// A step that takes only a person's own word gives out no link to answer it.
func TestALinkIsNotGivenWhereItsAnswerWouldNotCount(t *testing.T) {
	long(t)
	const sureDoc = "# %s\n\n## Sure\n\nAre you?\n\n```json\n" +
		`{"challenge":{"type":"user_input","approval_mode":"user","evidence_from":"person","user_input":{"prompt":"Are you sure?"}}}` + "\n```\n"
	b := withShippedDrivers(t, "http: {rate: {per_minute: -1}}\n")
	inBothEras(t, func(t *testing.T, era string) {
		for _, can := range []string{hasNothing, opensLinks} {
			s := &stage{b.visit(t, era, can), t}
			r := s.begun(s.document(sureDoc+"\n## "+strings.Repeat("x", len(can))+"\n\nx\n"), "")
			r = s.next(r, noResult("user_input", r)).step()
			s.code(r, "APPROVAL_UNAVAILABLE")
			if r.ApprovalURL != "" || !strings.Contains(r.Message, "counts only if a person answers it") || !strings.Contains(r.Message, "client that shows forms") {
				t.Errorf("reply = %+v, want what would be accepted, and no link", r)
			}
		}
		s := &stage{b.visit(t, era, hasForms), t}
		r := s.begun(s.document(sureDoc), "")
		k := s.next(r, noResult("user_input", r))
		k.answer(k.ask("elicitation/create"), `{"action":"accept","content":{"confirmation":"approved"}}`)
		s.proves(k.step(), driver.ClientAttested)
	})
}
