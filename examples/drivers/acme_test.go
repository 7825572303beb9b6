package drivers_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	acmeMethod   = "acme/confirm"
	legacyEra    = "2025-11-25"
	modernEra    = "2026-07-28"
	acmeDeclares = `{"experimental": {"acme/confirm": {}}}`
)

// acmeClient is a small client that speaks one era of MCP and, beside it, the
// method acme/confirm. It knows nothing of KAIROS.
type acmeClient struct {
	t            *testing.T
	era          string
	capabilities json.RawMessage
	// answers are its replies to acme/confirm, the last one for ever: a result, or
	// an error object with a code. None: it never answers.
	answers []string

	in     io.Writer
	out    *bufio.Reader
	lastID int
	asked  []acmeRequest
}

type acmeRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// acmeMessage is anything that the server sends.
type acmeMessage struct {
	acmeRequest
	Error  json.RawMessage `json:"error"`
	Result struct {
		ResultType        string                 `json:"resultType"`
		InputRequests     map[string]acmeRequest `json:"inputRequests"`
		RequestState      string                 `json:"requestState"`
		StructuredContent acmeReply              `json:"structuredContent"`
	} `json:"result"`
}

type acmeReply struct {
	reply
	RunID   string `json:"run_id"`
	Message string `json:"message"`
}

// connect starts a server with the drivers of Acme for one client.
func connect(t *testing.T, db, config, era, capabilities string, answers ...string) *acmeClient {
	t.Helper()
	// It ends with its client, after the test's own context.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program(t), "serve", "--db", db, "--config", config)
	cmd.Env = environment(t)
	var log bytes.Buffer
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("the server: %v\n%s", err, &log)
		}
	})
	c := &acmeClient{
		t: t, era: era, capabilities: json.RawMessage(capabilities), answers: answers, in: in, out: bufio.NewReader(out),
	}
	if era == legacyEra {
		c.request("initialize", map[string]any{
			"protocolVersion": era, "capabilities": c.capabilities, "clientInfo": map[string]any{"name": "acme", "version": "1"},
		})
		c.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	}
	return c
}

func (c *acmeClient) write(message map[string]any) {
	c.t.Helper()
	raw, err := json.Marshal(message)
	if err == nil {
		_, err = c.in.Write(append(raw, '\n'))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// request sends a request, answers what the server asks meanwhile, and returns
// the response.
func (c *acmeClient) request(method string, params map[string]any) acmeMessage {
	c.t.Helper()
	c.lastID++
	c.write(map[string]any{"jsonrpc": "2.0", "id": c.lastID, "method": method, "params": params})
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			c.t.Fatalf("the server ends before it answers %s: %v", method, err)
		}
		var m acmeMessage
		if err := json.Unmarshal(line, &m); err != nil {
			c.t.Fatalf("the server sends %s: %v", line, err)
		}
		switch {
		case m.Method != "" && len(m.ID) > 0:
			c.asked = append(c.asked, m.acmeRequest)
			c.reply(m.acmeRequest)
		case m.Method == "" && len(m.Error) > 0:
			c.t.Fatalf("%s: error %s", method, m.Error)
		case m.Method == "":
			return m
		}
	}
}

// next takes the next of its answers.
func (c *acmeClient) next() (answer string, ok bool) {
	if len(c.answers) == 0 {
		return "", false
	}
	time.Sleep(time.Second) // a faster answer is the client's own
	answer = c.answers[0]
	if len(c.answers) > 1 {
		c.answers = c.answers[1:]
	}
	return answer, true
}

func isError(answer string) bool { return strings.HasPrefix(answer, `{"code"`) }

// reply answers a request of the legacy era.
func (c *acmeClient) reply(r acmeRequest) {
	c.t.Helper()
	answer, ok := c.next()
	switch {
	case !ok:
	case isError(answer):
		c.write(map[string]any{"jsonrpc": "2.0", "id": r.ID, "error": json.RawMessage(answer)})
	default:
		c.write(map[string]any{"jsonrpc": "2.0", "id": r.ID, "result": json.RawMessage(answer)})
	}
}

// call calls a tool, in the modern era as often as it takes. A client of that era
// has no way to send an error: it comes back without an answer.
func (c *acmeClient) call(tool string, arguments any) acmeReply {
	c.t.Helper()
	params := map[string]any{"name": tool, "arguments": arguments}
	if c.era == modernEra {
		params["_meta"] = map[string]any{
			"io.modelcontextprotocol/protocolVersion":    c.era,
			"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "acme", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": c.capabilities,
		}
	}
	for range 10 {
		m := c.request("tools/call", params)
		if m.Result.ResultType != "input_required" {
			return m.Result.StructuredContent
		}
		responses := map[string]any{}
		for key, r := range m.Result.InputRequests {
			c.asked = append(c.asked, r)
			if answer, ok := c.next(); ok && !isError(answer) {
				responses[key] = json.RawMessage(answer)
			}
		}
		params["inputResponses"], params["requestState"] = responses, m.Result.RequestState
	}
	c.t.Fatal("the server asks more than ten times in one call")
	return acmeReply{}
}

// acmeConfig is a configuration with the tree of the example.
func acmeConfig(t *testing.T, more string) string {
	t.Helper()
	read := func(path ...string) []byte {
		raw := readFile(t, filepath.Join(path...))
		return raw
	}
	tree := read("..", "..", "core", "decision", "default.yaml")
	for section, lines := range map[string][]byte{
		"challenges": read("acme-confirm", "challenges.yaml"), "inputs": read("acme-confirm", "inputs.yaml"),
	} {
		head := []byte("\n" + section + ":\n")
		if bytes.Count(tree, head) != 1 {
			t.Fatalf("the shipped tree has no one section %s", section)
		}
		tree = bytes.Replace(tree, head, slices.Concat(head, lines), 1)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "kairos.yaml")
	for file, content := range map[string][]byte{
		filepath.Join(dir, "tree.yaml"): tree, config: []byte("tree: " + filepath.Join(dir, "tree.yaml") + "\n" + more),
	} {
		writeFile(t, file, content)
	}
	return config
}

func requireAcme(t *testing.T) {
	t.Helper()
	for _, driver := range []string{"acme_confirm", "acme_release"} {
		requireBuilt(t, example{folder: "acme-confirm", driver: driver})
	}
}

// begin stores the protocol of the example and begins it.
func (c *acmeClient) begin() acmeReply {
	c.t.Helper()
	document, err := os.ReadFile(filepath.Join("acme-confirm", "protocol.md"))
	if err != nil {
		c.t.Fatal(err)
	}
	stored := c.call("kairos_mint", map[string]any{"markdown_doc": string(document), "llm_model_id": "test", "force_update": true})
	if len(stored.Items) == 0 {
		c.t.Fatalf("mint: %+v", stored)
	}
	return c.call("kairos_begin", map[string]any{"uri": stored.Items[0].URI})
}

// placeholder is the call that lets the server obtain the solution. A reply does not name it
// where it does not help.
func (r acmeReply) placeholder() map[string]any {
	return map[string]any{"uri": r.CurrentStep.URI, "solution": map[string]any{"type": r.Challenge["type"], "nonce": r.Challenge["nonce"]}}
}

func eachEra(t *testing.T, test func(t *testing.T, era string)) {
	requireAcme(t)
	for _, era := range []string{legacyEra, modernEra} {
		t.Run(era, func(t *testing.T) { test(t, era) })
	}
}

func TestAcmesDriversPassTheKit(t *testing.T) {
	requireAcme(t)
	for driver, samples := range map[string]string{
		"acme_confirm": "acme-confirm/samples.json", "acme_release": "acme-confirm/acme-release/samples.json",
	} {
		out, err := kairos(t, "driver", "test", filepath.Join(folder(t), "kairos-driver-"+driver), "--sample", samples)
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

func TestAcmesTreeFits(t *testing.T) {
	requireAcme(t)
	config := acmeConfig(t, "")
	if out, err := kairos(t, "tree", "check", filepath.Join(filepath.Dir(config), "tree.yaml")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Both steps are confirmed through Acme's own method: one is evidence, the other
// an input of Acme's own kind.
func TestAcmesClientConfirmsWithItsOwnMethod(t *testing.T) {
	eachEra(t, func(t *testing.T, era string) {
		db, config := filepath.Join(t.TempDir(), "kairos.db"), acmeConfig(t, "")
		c := connect(t, db, config, era, acmeDeclares, `{"answer": "yes", "by": "alice"}`)
		at := c.begin()
		for i, question := range []string{"Are the tests of 2.4.1 green?", "Release 2.4.1?"} {
			at = c.call("kairos_next", at.NextCall.Arguments)
			if len(at.Solved) != 1 || at.Solved[0].Via != "acme_confirm" || at.Solved[0].Provenance != "client-attested" {
				t.Fatalf("step %d: %+v, want it solved through acme_confirm, attested by the client", i+1, at)
			}
			var params struct{ Question string }
			if len(c.asked) != i+1 || c.asked[i].Method != acmeMethod || json.Unmarshal(c.asked[i].Params, &params) != nil || params.Question != question {
				t.Fatalf("asked %d: %+v, want %s with %q", i+1, c.asked, acmeMethod, question)
			}
		}
		if out, err := kairos(t, "runs", "show", at.RunID, "--db", db, "--config", config); err != nil || strings.Count(out, "acme_confirm") < 2 {
			t.Errorf("runs show: %v, want both steps through acme_confirm\n%s", err, out)
		}
	})
}

// A client that is not one of Acme's is never sent the method: the route is
// skipped, the agent's word does not count where the protocol demands a person, and the
// record says why.
func TestOtherClientsAreNotSentAcmesMethod(t *testing.T) {
	eachEra(t, func(t *testing.T, era string) {
		db, config := filepath.Join(t.TempDir(), "kairos.db"), acmeConfig(t, "")
		for name, declared := range map[string]string{
			"declares nothing": `{}`, "in another place": `{"extensions": {"acme/confirm": {}}}`, "beside experimental": `{"acme/confirm": {}}`,
			"another feature": `{"experimental": {"acme": {"confirm": {}}}}`, "switched off": `{"experimental": {"acme/confirm": false}}`,
			"too large": `{"experimental": {"acme/confirm": "` + strings.Repeat("x", 10_000) + `"}}`,
		} {
			t.Run(name, func(t *testing.T) {
				c := connect(t, db, config, era, declared, `{"answer": "yes", "by": "mallory"}`)
				at := c.begin()
				at = c.call("kairos_next", at.placeholder())
				if len(c.asked) > 0 || len(at.Solved) > 0 || at.Challenge["type"] != "user_input" {
					t.Fatalf("asked %+v, reply %+v, want the agent to be shown the question", c.asked, at)
				}
				solved := c.call("kairos_next", map[string]any{"uri": at.CurrentStep.URI, "solution": map[string]any{
					"type": "user_input", "nonce": at.Challenge["nonce"], "proof_hash": at.Challenge["proof_hash"],
					"user_input": map[string]any{"confirmation": "approved"},
				}})
				if len(c.asked) > 0 || len(solved.Solved) > 0 || solved.ErrorCode != "EVIDENCE_NOT_ACCEPTED" {
					t.Fatalf("asked %+v, reply %+v, want that the agent's word does not count", c.asked, solved)
				}
				wantExplained(t, db, config, at.RunID, "acme_confirm", "client lacks /experimental/acme~1confirm")
			})
		}
	})
}

// A kiosk declares the method and more: a condition sees that in client.capabilities.
func TestAConditionSeesWhatAcmesClientDeclares(t *testing.T) {
	eachEra(t, func(t *testing.T, era string) {
		c := connect(t, filepath.Join(t.TempDir(), "kairos.db"), acmeConfig(t, ""), era,
			`{"experimental": {"acme/confirm": {"kiosk": true}}}`, `{"answer": "yes", "by": "alice"}`)
		at := c.begin()
		at = c.call("kairos_next", at.NextCall.Arguments)
		if len(at.Solved) != 1 {
			t.Fatalf("step 1: %+v, want it solved", at)
		}
		at = c.call("kairos_next", at.placeholder())
		if len(c.asked) != 1 || len(at.Solved) > 0 || at.ErrorCode != "DRIVER_UNAVAILABLE" {
			t.Errorf("step 2: %+v after %d questions, want that a kiosk is not asked to release", at, len(c.asked))
		}
	})
}

// An answer that is not one closes the route, or leaves the question open, but
// never solves the step.
func TestBadAnswersToAcmesMethodSolveNothing(t *testing.T) {
	requireAcme(t)
	for name, tc := range map[string]struct {
		eras    []string
		answers []string
		code    string // of the reply; empty: the agent is shown the question
		why     string // recorded
	}{
		"an error":         {[]string{legacyEra}, []string{`{"code": -32000, "message": "the window is closed"}`}, "", "error"},
		"method not found": {[]string{legacyEra}, []string{`{"code": -32601, "message": "no such method"}`}, "", "unavailable"},
		"nonsense":         {[]string{legacyEra, modernEra}, []string{`{"answer": {"yes": true}}`}, "", "invalid"},
		"a list":           {[]string{legacyEra, modernEra}, []string{`["yes", "alice"]`}, "", "invalid"},
		"half an answer":   {[]string{legacyEra, modernEra}, []string{`{"answer": "yes"}`}, "", "invalid"},
		"no":               {[]string{legacyEra, modernEra}, []string{`{"answer": "no", "by": "alice"}`}, "USER_DECLINED", "declined"},
		"later":            {[]string{legacyEra, modernEra}, []string{`{"answer": "later", "by": "alice"}`}, "WAITING_FOR_USER", ""},
		"never":            {[]string{legacyEra, modernEra}, nil, "WAITING_FOR_USER", ""},
		"an error, modern": {[]string{modernEra}, []string{`{"code": -32000, "message": "the window is closed"}`}, "WAITING_FOR_USER", ""},
	} {
		for _, era := range tc.eras {
			t.Run(name+" "+era, func(t *testing.T) {
				t.Parallel() // some wait
				wait := "1m"
				if tc.code == "WAITING_FOR_USER" { // after the question was put, however slow the machine is
					wait = "5s"
				}
				db, config := filepath.Join(t.TempDir(), "kairos.db"), acmeConfig(t, "mcp: {wait: "+wait+"}\n")
				c := connect(t, db, config, era, acmeDeclares, tc.answers...)
				at := c.begin()
				at = c.call("kairos_next", at.NextCall.Arguments)
				if len(c.asked) == 0 || len(at.Solved) > 0 || at.ErrorCode != tc.code && tc.code != "" {
					t.Fatalf("asked %d times, reply %+v, want nothing solved and code %q", len(c.asked), at, tc.code)
				}
				if tc.code == "" && at.Challenge["type"] != "user_input" {
					t.Errorf("reply %+v, want the agent to be shown the question", at)
				}
				if tc.why != "" {
					wantExplained(t, db, config, at.RunID, tc.why)
				}
			})
		}
	}
}

// A large answer is read as one of any other method is: here it is an answer.
func TestALargeAnswerToAcmesMethodIsBounded(t *testing.T) {
	eachEra(t, func(t *testing.T, era string) {
		c := connect(t, filepath.Join(t.TempDir(), "kairos.db"), acmeConfig(t, ""), era, acmeDeclares,
			fmt.Sprintf(`{"answer": "yes", "by": "alice", "more": %q}`, strings.Repeat("x", 20<<20)))
		at := c.begin()
		at = c.call("kairos_next", at.NextCall.Arguments)
		if len(at.Solved) > 0 || at.Challenge["type"] != "user_input" && at.ErrorCode == "" {
			t.Errorf("reply %+v, want an answer of 20 MiB to solve nothing", at)
		}
	})
}

// wantExplained demands texts in what the server recorded of the run's decisions.
func wantExplained(t *testing.T, db, config, runID string, texts ...string) {
	t.Helper()
	out, err := kairos(t, "tree", "explain", "--run", runID, "--db", db, "--config", config)
	if err != nil {
		t.Fatalf("tree explain: %v\n%s", err, out)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("tree explain prints no %q:\n%s", text, out)
		}
	}
}

func TestAcmesREADMEShowsTheLockEntry(t *testing.T) {
	requireAcme(t)
	wantLockEntry(t, example{folder: "acme-confirm", driver: "acme_confirm"})
}
