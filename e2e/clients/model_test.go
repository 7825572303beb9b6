package clients_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// model is a scripted model on loopback that follows next_call exactly. It speaks
// four APIs, and reads the whole conversation at each request, as a model does.
type model struct {
	play play
	// before is called before a call of a tool of KAIROS is returned to the program,
	// with the number of calls of that tool before it. It may be nil.
	before func(tool string, nth int)
	// read is called with each result as the program passes it. It may be nil.
	read func(text string)

	server *httptest.Server

	mu    sync.Mutex // guards the fields below
	last  *talk      // of the agent: the one with the most turns
	end   string     // the last words
	calls map[string]int
	notes []string // what was called and what came back, for failures
}

// newModel starts a model, which ends with the test.
func newModel(t testing.TB, p play) *model {
	t.Helper()
	m := &model{play: p, calls: make(map[string]int)}
	m.server = httptest.NewServer(m)
	t.Cleanup(m.server.Close)
	return m
}

func (m *model) url() string { return m.server.URL }

// ended is what the model said at last; empty: the program has left before.
func (m *model) ended() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end
}

// conversation is the longest that the program passed; an empty one: there was none.
func (m *model) conversation() *talk {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		return &talk{}
	}
	return m.last
}

// notebook is what happened, for a failure.
func (m *model) notebook() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.notes, "\n")
}

func (m *model) note(words string) {
	if len(words) > 1500 {
		words = words[:1500] + "…"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = append(m.notes, words)
}

// bodyLimit of a request: programs send their whole prompt each time.
const bodyLimit = 64 << 20

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = http.MaxBytesReader(w, r.Body, bodyLimit)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	a, ok := apiAt(r.URL.Path)
	var req map[string]any
	switch {
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, `{"object": "list", "data": [{"id": "fake", "object": "model", "created": 0, "owned_by": "nobody", "name": "fake"}], "models": []}`)
		return
	case strings.Contains(strings.ToLower(r.URL.Path), "count") || !ok:
		_, _ = io.WriteString(w, `{"input_tokens": 10, "totalTokens": 10}`)
		return
	case json.Unmarshal(raw, &req) != nil:
		m.note("not JSON at " + r.URL.Path)
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	t := a.read(req)
	t.raw = string(raw)
	t.stream = req["stream"] == true || strings.Contains(r.URL.Path, "stream")
	if t.stream {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	_, _ = io.WriteString(w, a.write(t, m.answer(t), len(t.turns))) // a program that has left
}

func apiAt(path string) (api, bool) {
	switch lower := strings.ToLower(path); {
	case strings.HasSuffix(lower, "/messages"):
		return anthropic, true
	case strings.HasSuffix(lower, "/responses"):
		return responses, true
	case strings.HasSuffix(lower, "/chat/completions"):
		return completions, true
	case strings.HasSuffix(lower, "generatecontent"):
		return gemini, true
	}
	return api{}, false
}

// answer is what the model says next. Requests without tools, and those that are not
// about the person's request, are the program's own: for a title, or a summary.
func (m *model) answer(t *talk) answer {
	if len(t.tools) == 0 || !t.hears(m.play.hears) {
		return answer{words: "ok"}
	}
	m.mu.Lock()
	if m.last == nil || len(t.turns) >= len(m.last.turns) {
		m.last = t
	}
	m.mu.Unlock()
	if n := len(t.turns); n > 0 && t.turns[n-1].kind == result {
		m.note("< " + t.turns[n-1].text)
	}
	for _, t := range t.turns { // a program may put words of its own behind a result
		if m.read != nil && t.kind == result {
			m.read(t.text)
		}
	}
	next := m.play.next(t)
	if next.words == "" {
		next = m.located(t, next)
	}
	if next.words != "" {
		m.mu.Lock()
		m.end = next.words
		m.mu.Unlock()
		m.note("= " + next.words)
		return next
	}
	m.note("> " + next.tool.name + " " + encoded(next.args))
	name := unwrapped(turn{name: next.tool.name, args: next.args}).name
	if bare := name[max(0, strings.LastIndex(name, "kairos_")):]; strings.HasPrefix(bare, "kairos_") {
		m.mu.Lock()
		nth := m.calls[bare]
		m.calls[bare]++
		m.mu.Unlock()
		if m.before != nil {
			m.before(bare, nth)
		}
	}
	return next
}

// mostPauses is how often an agent waits for servers that the program is still starting.
const mostPauses = 5

var deferredName = regexp.MustCompile(`mcp__[A-Za-z0-9_-]+`)

// located is the call under the name that the program has for the tool. Claude Code
// and Qwen show only the names of tools of servers until they are asked for.
func (m *model) located(t *talk, a answer) answer {
	if found, ok := t.tool(a.tool.name); ok {
		return answer{tool: found, args: a.args}
	}
	last, pauses := turn{}, 0
	for _, x := range t.turns {
		if x.kind == called {
			last = x
			if awaits(x) {
				pauses++
			}
		}
	}
	full := a.tool.name
	for _, name := range deferredName.FindAllString(t.raw, -1) {
		if strings.HasSuffix(name, "__"+a.tool.name) {
			full = name
			break
		}
	}
	if through, ok := t.tool(caller); ok && finds(last.name) {
		return wrapped(through, full, a.args)
	}
	for _, f := range finders {
		finder, ok := t.tool(f)
		if !ok || finds(last.name) {
			continue
		}
		return answer{tool: finder, args: map[string]any{"query": "select:" + full, "max_results": 5}}
	}
	if sh := runs(t, pause); sh.words == "" && pauses < mostPauses && strings.HasPrefix(a.tool.name, "kairos_") {
		sh.tool, _ = t.tool(sh.tool.name)
		return sh
	}
	names := make([]string, 0, len(t.tools))
	for _, x := range t.tools {
		names = append(names, x.name)
	}
	m.note("tools: " + strings.Join(names, " "))
	return answer{words: "no tool " + a.tool.name}
}
