package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// program is a server process with the shipped drivers, and its metrics.
type program struct {
	*listening
	metrics string
	client  *http.Client
}

// startProgram starts a server; more is added to its configuration.
func startProgram(t *testing.T, more string, args ...string) *program {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED with -short: measures memory, which the race detector multiplies; make test runs it without")
	}
	return withShippedDrivers(t, more, args...)
}

// withShippedDrivers starts a server; more is added to its configuration.
func withShippedDrivers(t *testing.T, more string, args ...string) *program {
	t.Helper()
	s := &served{t: t, dir: t.TempDir()}
	if !strings.Contains(more, "mcp:") {
		more += "mcp: {plain_wait: 5s}\n"
	}
	s.write("kairos.yaml", "database: data/kairos.db\nadmin: {socket: run/admin.sock}\ndrivers: {dir: "+buildDrivers(t)+"}\n"+more)
	return programOf(s.startHTTP(args...))
}

func programOf(l *listening) *program {
	l.t.Helper()
	l.logs("kairos: metrics at ", 1)
	b := &program{listening: l, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	b.metrics = regexp.MustCompile(`metrics at (http://\S+)`).FindStringSubmatch(l.stderr.String())[1]
	l.t.Cleanup(b.client.CloseIdleConnections)
	return b
}

func (b *program) address() string { return strings.TrimPrefix(b.url, "http://") }

// scrape is all metrics.
func (b *program) scrape() string {
	b.t.Helper()
	res, err := b.client.Get(b.metrics)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// measure reads a metric without labels of its own, or with just these.
func (b *program) measure(name string) float64 {
	b.t.Helper()
	for line := range strings.Lines(b.scrape()) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name || strings.HasPrefix(key, name+"{") {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.t.Fatal(err)
			}
			return n
		}
	}
	b.t.Fatalf("no metric %s", name)
	return 0
}

// routed checks how often routes ended like this, and that each was timed.
func (b *program) routed(times float64, challenge, input, via, outcome, code string) {
	b.t.Helper()
	scrape := b.scrape()
	labels := []string{fmt.Sprintf("challenge=%q", challenge), fmt.Sprintf("input=%q", input), fmt.Sprintf("via=%q", via), fmt.Sprintf("outcome=%q", outcome)}
	for name, labels := range map[string][]string{
		"kairos_route_total": append(labels, fmt.Sprintf("error_code=%q", code)), "kairos_route_duration_seconds_count": labels,
	} {
		var got float64
		for line := range strings.Lines(scrape) {
			if strings.HasPrefix(line, name+"{") && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(line, l) }) {
				n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:len(line)-1], 64)
				if err != nil {
					b.t.Fatal(err)
				}
				got += n
			}
		}
		if got != times {
			b.t.Errorf("%s%v is %v, want %v", name, labels, got, times)
		}
	}
}

func (b *program) memory() int { return int(b.measure("process_resident_memory_bytes") / (1 << 20)) }

// settles waits until the server has hardly more goroutines than before.
func (b *program) settles(before float64) {
	b.t.Helper()
	b.client.CloseIdleConnections()
	const spare = 10 // connections of this test and what a library starts once
	eventually(b.t, "goroutines to end", func() bool { return b.measure("go_goroutines") <= before+spare })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) { // polling with a deadline
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// answer is a reply over HTTP.
type answer struct {
	status int
	header http.Header
	body   string
}

func (b *program) do(method, path, body string, headers map[string]string) answer {
	b.t.Helper()
	a, err := b.try(method, path, body, headers)
	if err != nil {
		b.t.Fatalf("%s %s: %v\n%s", method, path, err, b.stderr.String())
	}
	return a
}

func (b *program) try(method, path, body string, headers map[string]string) (a answer, err error) {
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	res, err := b.client.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(text)}, err
}

// raw sends bytes and reads until the server closes the connection or has
// answered once.
func (b *program) raw(text string) string {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.address())
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, text); err != nil {
		b.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return fmt.Sprintf("%d %s", res.StatusCode, body)
}

// rpcCall is a call of a tool as clients write it.
func rpcCall(id any, tool string, args string, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, id, tool, args, more)
}

const modernMeta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"modern","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`

// modern calls a tool as a client of 2026-07-28 that has forms.
func (b *program) modern(tool, args, more string) answer {
	b.t.Helper()
	return b.do("POST", "/mcp", rpcCall(1, tool, args, more+modernMeta), map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	})
}

// plain calls a tool as a client that has nothing.
func (b *program) plain(tool, args string) answer {
	b.t.Helper()
	return b.do("POST", "/mcp", rpcCall(1, tool, args, ""), nil)
}

// result is the result of a tool call, from JSON or from the last event.
func (a answer) result(t *testing.T) (r toolReply) {
	t.Helper()
	text := a.body
	if i := strings.LastIndex(text, "data: "); i >= 0 {
		text = text[i+len("data: "):]
	}
	var m struct {
		Result *toolReply `json:"result"`
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Result == nil {
		t.Fatalf("%d %.600s: %v, want a result", a.status, a.body, err)
	}
	return *m.Result
}

type toolReply struct {
	ResultType string `json:"resultType"`
	State      string `json:"requestState"`
	Requests   map[string]json.RawMessage
	Inputs     map[string]struct {
		Params json.RawMessage `json:"params"`
	} `json:"inputRequests"`
	IsError bool `json:"isError"`
	Reply   struct {
		RunID     string `json:"run_id"`
		ErrorCode string `json:"error_code"`
		Message   string `json:"message"`
		Verified  bool   `json:"verified"`
		Current   struct {
			URI string `json:"uri"`
		} `json:"current_step"`
		Challenge struct {
			Nonce     string `json:"nonce"`
			ProofHash string `json:"proof_hash"`
		} `json:"challenge"`
		Solved []struct {
			Label string `json:"label"`
		} `json:"solved"`
		Items []struct {
			URI string `json:"uri"`
		} `json:"items"`
	} `json:"structuredContent"`
}

// mint stores a document and returns the URIs of its steps.
func (b *program) mint(doc string) (uris []string) {
	b.t.Helper()
	args, _ := json.Marshal(map[string]any{"markdown_doc": doc, "llm_model_id": "test", "force_update": true})
	for _, item := range b.plain("kairos_mint", string(args)).result(b.t).Reply.Items {
		uris = append(uris, item.URI)
	}
	if len(uris) == 0 {
		b.t.Fatalf("nothing was minted\n%s", b.stderr.String())
	}
	return uris
}

// opened is a run whose step is open.
type opened struct {
	b                    *program
	uri, run, nonce, sum string
}

func (b *program) begin(uri string) opened {
	b.t.Helper()
	r := b.plain("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uri)).result(b.t).Reply
	if r.RunID == "" {
		b.t.Fatalf("no run: %+v\n%s", r, b.stderr.String())
	}
	return opened{b, uri, r.RunID, r.Challenge.Nonce, r.Challenge.ProofHash}
}

// solution proves the step, with more fields in its evidence.
func (o opened) solution(more string) string {
	return fmt.Sprintf(`{"uri":%q,"run_id":%q,"solution":{"type":"shell","nonce":%q,"proof_hash":%q,"shell":{"exit_code":0%s}}}`,
		o.uri, o.run, o.nonce, o.sum, more)
}

// finish solves the step and attests the run.
func (o opened) finish() {
	o.b.t.Helper()
	if r := o.b.plain("kairos_next", o.solution("")).result(o.b.t).Reply; len(r.Solved) != 1 {
		o.b.t.Fatalf("the step is not solved: %+v\n%s", r, o.b.stderr.String())
	}
	args := fmt.Sprintf(`{"uri":%q,"run_id":%q,"outcome":"success","message":"done"}`, o.uri, o.run)
	if a := o.b.plain("kairos_attest", args); !a.result(o.b.t).Reply.Verified {
		o.b.t.Fatalf("not verified: %s", a.body)
	}
}

const onePerson = "# Person\n\n## Ask\n\nask them\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"Deploy?\"}}}\n```\n"

// Bad arguments, over MCP or REST, are refused with a status and a reason or
// are served, and an open run can still be finished.
func TestBadInputOverHTTPIsRefusedAndHarmsNoRun(t *testing.T) {
	long(t)
	b := startProgram(t, "http: {rate: {per_minute: -1}}\n")
	uri := b.mint(oneCommand)[0]
	run := b.begin(uri)
	goroutines := b.measure("go_goroutines")
	keys := func(n int) string {
		var s strings.Builder
		for i := range n {
			fmt.Fprintf(&s, `"k%d":1,`, i)
		}
		return "{" + s.String() + `"uri":"` + uri + `"}`
	}
	huge, long := strings.Repeat("x", 10<<20), strings.Repeat("x", 1<<20)
	uris := strings.TrimSuffix(strings.Repeat(`"kairos://mem/11111111-1111-4111-8111-111111111111",`, 10_000), ",")
	for name, tc := range map[string]struct {
		tool, args string
		mcp, rest  string // prefix of status, space, and what the text holds
	}{
		"a solution of 10 MB":      {"kairos_next", run.solution(`,"stdout":"` + huge + `"`), "200 |4194304", "400 |4194304"},
		"a nonce of 1 MB":          {"kairos_next", fmt.Sprintf(`{"uri":%q,"solution":{"type":"shell","nonce":%q}}`, uri, long), "200 |must_obey", "200 |must_obey"},
		"a query of 1 MB":          {"kairos_search", `{"query":"` + long + `"}`, "200 |create", "200 |create"},
		"a model name of 1 MB":     {"kairos_mint", `{"llm_model_id":"` + long + `","markdown_doc":"# Long\n\n## A\n\nx"}`, "200 |stored", "404 |"},
		"a message of 1 MB":        {"kairos_attest", `{"outcome":"success","uri":"` + uri + `","run_id":"none","message":"` + long + `"}`, "200 |message", "400 |message"},
		"a million keys":           {"kairos_begin", keys(1_000_000), "400 |values", "400 |values"},
		"100,000 keys":             {"kairos_dump", keys(100_000), "200 |run it", "200 |run it"},
		"100,000 deep":             {"kairos_next", `{"uri":"` + uri + `","solution":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, "400 |nested", "400 |nested"},
		"100,000 open":             {"kairos_next", strings.Repeat(`{"a":`, 100_000), "400 |nested", "400 |nested"},
		"a number for a uri":       {"kairos_begin", `{"uri":1}`, "200 |uri", "400 |uri"},
		"a list for arguments":     {"kairos_begin", `[1]`, "200 |object", "400 |object"},
		"a text for a solution":    {"kairos_next", `{"uri":"` + uri + `","solution":"yes"}`, "200 |solution", "400 |solution"},
		"an unknown field":         {"kairos_dump", `{"uri":"` + uri + `","speed":9}`, "200 |run it", "200 |run it"},
		"invalid UTF-8":            {"kairos_search", "{\"query\":\"\xff\xfe\"}", "400 |UTF-8", "400 |UTF-8"},
		"half a surrogate pair":    {"kairos_search", `{"query":"\ud800"}`, "200 |blank", "400 |blank"},
		"a NUL":                    {"kairos_search", "{\"query\":\"\x00\"}", "400 |", "400 |"},
		"an escaped NUL":           {"kairos_search", `{"query":"\u0000"}`, "200 |blank", "400 |blank"},
		"a uri twice":              {"kairos_begin", `{"uri":"` + uri + `","uri":"nowhere"}`, "200 |uri", "400 |uri"},
		"a uri in capitals":        {"kairos_dump", `{"uri":"` + uri + `","URI":"nowhere"}`, "200 |URI", "400 |URI"},
		"1e400":                    {"kairos_next", strings.Replace(run.solution(""), `"exit_code":0`, `"exit_code":1e400`, 1), "200 |must_obey", "200 |must_obey"},
		"1e1000000":                {"kairos_next", strings.Replace(run.solution(""), `"exit_code":0`, `"exit_code":1e1000000`, 1), "200 |must_obey", "200 |must_obey"},
		"a limit of 1e999999999":   {"kairos_spaces", `{"limit":1e999999999}`, "200 |limit", "400 |limit"},
		"a bonus beyond all":       {"kairos_attest", `{"uri":"` + uri + `","outcome":"success","message":"m","run_id":"none","quality_bonus":1e308}`, "200 |quality_bonus", "400 |quality_bonus"},
		"10,000 uris":              {"kairos_delete", `{"uris":[` + uris + `]}`, "200 |uris", "400 |uris"},
		"10,000 updates":           {"kairos_update", `{"updates":{"text":"x"},"uris":[` + uris + `]}`, "200 |uris", "400 |uris"},
		"a run id of 1 MB":         {"kairos_next", `{"uri":"` + uri + `","run_id":"` + long + `"}`, "200 |run", "4"},
		"a session id of 1 MB":     {"kairos_begin", `{"uri":"` + uri + `","session_id":"` + long + `"}`, "200 |run", "404 |run"},
		"a solution of other type": {"kairos_next", strings.Replace(run.solution(""), `"type":"shell"`, `"type":"telepathy"`, 1), "200 |type", "400 |type"},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			for face, a := range map[string]answer{
				tc.mcp: b.plain(tc.tool, tc.args), tc.rest: b.do("POST", "/api/"+tc.tool, tc.args, nil),
			} {
				status, text, _ := strings.Cut(face, "|")
				if got := fmt.Sprintf("%d ", a.status); !strings.HasPrefix(got, status) || !strings.Contains(a.body, text) || len(a.body) > 20_000 {
					t.Errorf("%.40s = %d, %d bytes: %.300s; want %s", tc.tool, a.status, len(a.body), a.body, face)
				}
			}
		})
	}
	b.t = t
	for name, tc := range map[string]struct{ body, want string }{
		"an id of 2 KB":           {rpcCall(`"`+strings.Repeat("i", 2048)+`"`, "kairos_spaces", "{}", ""), "400 .*at most 1024"},
		"an object for an id":     {rpcCall(`{}`, "kairos_spaces", "{}", ""), "400 .*the id must be"},
		"a batch":                 {"[" + rpcCall(1, "kairos_spaces", "{}", "") + "]", "400 .*batches"},
		"two messages":            {rpcCall(1, "kairos_spaces", "{}", "") + rpcCall(2, "kairos_spaces", "{}", ""), "400 .*not JSON"},
		"a tool that is not":      {rpcCall(1, "kairos_rm", "{}", ""), "200 .*kairos_rm"},
		"a method that is not":    {`{"jsonrpc":"2.0","id":1,"method":"shell/run"}`, "200 .*-32601"},
		"JSON-RPC 1":              {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, "200 .*error"},
		"a capability of 1":       {`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":1}}`, "200 .*error"},
		"an answer to no session": {`{"jsonrpc":"2.0","id":1,"result":{}}`, "400 .*session"},
	} {
		a := b.do("POST", "/mcp", tc.body, nil)
		if got := fmt.Sprintf("%d %s", a.status, a.body); !regexp.MustCompile("^"+tc.want).MatchString(got) || len(got) > 2000 {
			t.Errorf("%s: %.400s; want %s", name, got, tc.want)
		}
	}
	var together sync.WaitGroup
	for range 4 {
		together.Go(func() {
			a, err := b.try("POST", "/mcp", rpcCall(1, "kairos_next", run.solution(`,"stdout":"`+huge+`"`), ""), nil)
			if err != nil || !strings.Contains(a.body, "4194304") {
				t.Errorf("10 MB, four at a time: %d %.300s %v", a.status, a.body, err)
			}
		})
	}
	together.Wait()
	run.finish()
	b.settles(goroutines)
	if used := b.memory(); used > 768 {
		t.Errorf("the server uses %d MiB in the end, want at most 768", used)
	}
}
