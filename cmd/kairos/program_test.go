package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// program is a server process with the shipped drivers, and its metrics.
type program struct {
	*listening
	metrics string
	client  *http.Client
}

// withShippedDrivers starts a server; more is added to its configuration.
func withShippedDrivers(t *testing.T, more string, args ...string) *program {
	t.Helper()
	s := &served{t: t, dir: t.TempDir()}
	if !strings.Contains(more, "mcp:") {
		more += "mcp: {wait: 5s}\n"
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

// rpcCall is a call of a tool as clients write it.
func rpcCall(id any, tool string, args string, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, id, tool, args, more)
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
	Reply struct {
		RunID string `json:"run_id"`
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

// begin opens a run and returns its id.
func (b *program) begin(uri string) string {
	b.t.Helper()
	r := b.plain("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uri)).result(b.t).Reply
	if r.RunID == "" {
		b.t.Fatalf("no run: %+v\n%s", r, b.stderr.String())
	}
	return r.RunID
}
