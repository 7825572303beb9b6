package clients_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/clients"
)

// situation is a column of the table.
type situation struct {
	name string
	ci   bool // found faults, so that CI plays it
	play func(g *game) string
}

// game is one program in one situation.
type game struct {
	t       *testing.T
	program program
	bin     string
	result  *clients.Result // its figures are filled in
	log     []string        // for a failure
	first   *session        // of the run of two commands, which two situations look at
}

var situations = []situation{
	{"tools", false, tools},
	{"stdio", false, overStdio},
	{"http", false, overHTTP},
	{"approval", true, approval},
	{"question", true, question},
	{"files", true, files},
	{"wait", false, wait},
	{"killed", false, killed},
	{"restarted", true, restarted},
	{"sessions", false, twoSessions},
	{"menu", false, menu},
}

var (
	disk = play{hears: "PLAY", search: "Check free disk space", input: map[string]any{"directory": "/"}}
	book = play{hears: "PLAY", search: "Create calendar appointment", input: map[string]any{"participants": []any{"Adam", "Eva"}},
		answers: map[string]any{"duration": map[string]any{"duration_minutes": 30}}, waits: 60, pause: time.Second}
	signOff = play{hears: "PLAY", search: "Release sign-off", waits: 60, pause: time.Second,
		answers: map[string]any{"window": map[string]any{"day": "tuesday", "watcher": "Ada"}, "sign_off": "yes"}}
	greet   = play{hears: "PLAY", search: "Write the greeting"}
	release = play{hears: "PLAY", search: "Publish the release notes", waits: 60, pause: 5 * time.Second}
)

// request is what the person asks of the program.
func request(p play) string { return "PLAY the protocol: " + p.search }

// started plays once, with a person at the approval page if there is one.
func (g *game) started(w world, p play, at *person, before func(s *session, tool string, nth int)) string {
	g.t.Helper()
	m := newModel(g.t, p)
	s := newSession(g.t, g.program, g.bin, w, m)
	if before != nil {
		m.before = func(tool string, nth int) { before(s, tool, nth) }
	}
	return g.ran(s, at)
}

// ran starts the program of a session, and returns how the agent ended.
func (g *game) ran(s *session, at *person) string {
	g.t.Helper()
	if at != nil {
		s.model.read = at.read
	}
	printed := s.run(g.t.Context(), request(s.model.play))
	g.log = append(g.log, s.model.notebook(), "printed: "+printed)
	for _, f := range frames(s.recording()) {
		g.log = append(g.log, fmt.Sprint("wire: ", f.From, " ", f.PID, " ", cut(f.Line)))
	}
	if at != nil {
		at.pending.Wait()
		g.log = append(g.log, at.diary())
	}
	switch words := s.model.ended(); {
	case words == "" && asksModel(s):
		return clients.NeedsPermission
	case words == "":
		return "the program ended before the agent did"
	default:
		return words
	}
}

// asksModel says whether the last word of the server was a request to the program's model.
func asksModel(s *session) bool {
	last := ""
	for _, f := range frames(s.recording()) {
		if f.From == "server" {
			last = f.Line
		}
	}
	return strings.Contains(last, `"sampling/createMessage"`)
}

func works(words string) string {
	if words == verified {
		return clients.Works
	}
	return words
}

// listed is a run of two commands over stdio, in which the figures are taken as well.
func (g *game) listed() (words string, s *session) {
	if g.first == nil {
		w := newWorld(g.t)
		g.first = newSession(g.t, g.program, g.bin, w, newModel(g.t, disk))
		g.ran(g.first, nil)
	}
	return cmp.Or(g.first.model.ended(), "the program ended before the agent did"), g.first
}

// overStdio also counts what the program passes of the tools, and what its model reads.
func overStdio(g *game) string {
	words, s := g.listed()
	t := s.model.conversation()
	g.result.Tools, g.result.ToolBytes, g.result.ReplyBytes = 0, 0, 0
	for _, x := range t.kairos() {
		g.result.Tools++
		g.result.ToolBytes += len(x.raw)
	}
	for _, o := range t.outcomes() {
		if o.ours() {
			g.result.ReplyBytes += len(o.text)
		}
	}
	return works(words)
}

// tools compares what the model is shown with what the server declares.
func tools(g *game) string {
	_, s := g.listed()
	declared := make(map[string]map[string]any)
	for _, f := range frames(s.recording()) {
		for _, x := range objects(object(decoded(f.Line), "result")["tools"]) {
			declared[text(x, "name")] = object(x, "inputSchema")
		}
	}
	if len(declared) == 0 {
		return "the program lists no tools"
	}
	t := s.model.conversation()
	g.result.Instructions = "nowhere"
	if strings.Contains(t.system, instructions) {
		g.result.Instructions = "in the system prompt"
	} else if strings.Contains(t.raw, instructions) {
		g.result.Instructions = "in a message"
	}
	g.result.Deferred = 0
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		shown, ok := t.tool(name)
		switch {
		case !ok && strings.Contains(t.raw, name):
			g.result.Deferred++
		case !ok:
			return "the model does not see " + name
		case lacks(properties(shown.schema), properties(declared[name])) != "":
			return fmt.Sprintf("the model does not see %s of %s", lacks(properties(shown.schema), properties(declared[name])), name)
		}
	}
	return clients.Works
}

// instructions is how the server's instructions begin.
const instructions = "KAIROS keeps protocols"

// lacks is the first of all that is not shown: programs may add properties of their own.
func lacks(shown, all []string) string {
	for _, path := range all {
		if !slices.Contains(shown, path) {
			return path
		}
	}
	return ""
}

// properties are the paths of a schema, as far as objects reach.
func properties(schema map[string]any) (paths []string) {
	for name, p := range object(schema, "properties") {
		paths = append(paths, name)
		in, _ := p.(map[string]any)
		for _, deeper := range properties(in) {
			paths = append(paths, name+"."+deeper)
		}
	}
	slices.Sort(paths)
	return paths
}

func overHTTP(g *game) string {
	w := newWorld(g.t)
	w.serve(g.t)
	return works(g.started(w, disk, nil, nil))
}

// approval has a person read the page for a second: what a client answers itself comes
// sooner.
func approval(g *game) string {
	return works(g.started(newWorld(g.t), book, newPerson(time.Second, map[string]string{"duration_minutes": "30"}), nil))
}

func question(g *game) string {
	return works(g.started(newWorld(g.t), signOff, newPerson(time.Second, map[string]string{"day": "tuesday", "watcher": "Ada"}), nil))
}

func files(g *game) string { return works(g.started(newWorld(g.t), greet, nil, nil)) }

func wait(g *game) string {
	return works(g.started(newWorld(g.t), release, newPerson(70*time.Second, nil), nil))
}

// killed kills the server over stdio between two steps. Most programs do not start it
// again: then the next session continues the run.
func killed(g *game) string {
	w := newWorld(g.t)
	var once sync.Once
	killed := false
	m := newModel(g.t, disk)
	s := newSession(g.t, g.program, g.bin, w, m)
	m.before = func(tool string, nth int) {
		if tool == "kairos_next" && nth == 1 {
			once.Do(func() { killed = g.kill(s) })
		}
	}
	switch words := g.ran(s, nil); {
	case !killed:
		return "the run ended before the server was killed: " + words
	case words == verified:
		return clients.Works
	}
	s.use(g.t, newModel(g.t, disk))
	if words := g.ran(s, nil); words != verified {
		return words
	}
	var runs []json.RawMessage
	if err := json.Unmarshal([]byte(w.run(g.t, "runs", "list", "--output", "json")), &runs); err != nil {
		g.t.Fatal(err)
	}
	if len(runs) != 1 {
		return fmt.Sprintf("the next session begins again: %d runs", len(runs))
	}
	return clients.NextSession
}

// kill ends the servers that the program has started, as a crash does; false: there
// were none.
func (g *game) kill(s *session) (killed bool) {
	ended := make(map[int]bool)
	all := frames(s.recording())
	for _, f := range all {
		if f.From == "ended" {
			ended[f.PID] = true
		}
	}
	for _, f := range all {
		if f.From == "started" && !ended[f.PID] {
			_ = syscall.Kill(f.PID, syscall.SIGKILL)
			ended[f.PID] = true
			killed = true
		}
	}
	return killed
}

// restarted kills the server over HTTP between two steps, and starts it again.
func restarted(g *game) string {
	w := newWorld(g.t)
	server := w.serve(g.t)
	var once sync.Once
	again := false
	words := g.started(w, disk, nil, func(_ *session, tool string, nth int) {
		if tool == "kairos_next" && nth == 1 {
			once.Do(func() {
				server.Kill()
				server.Start()
				server.AwaitReady()
				again = true
			})
		}
	})
	if !again {
		return "the run ended before the server was killed: " + words
	}
	return works(words)
}

// twoSessions are of the same program on the same database, at the same time.
func twoSessions(g *game) string {
	w := newWorld(g.t)
	models := []*model{newModel(g.t, disk), newModel(g.t, greet)}
	var both sync.WaitGroup
	printed := make([]string, len(models))
	for i, m := range models {
		s := newSession(g.t, g.program, g.bin, w, m)
		both.Add(1)
		go func() {
			defer both.Done()
			printed[i] = s.run(g.t.Context(), request(m.play))
		}()
	}
	both.Wait()
	for i, m := range models {
		g.log = append(g.log, m.notebook(), "printed: "+printed[i])
		if m.ended() != verified {
			return "session " + fmt.Sprint(i+1) + ": " + m.ended()
		}
	}
	return clients.Works
}

// menu starts the protocol as the program's slash menu does.
func menu(g *game) string {
	if g.program.menu == nil {
		return clients.NoMenu
	}
	w := newWorld(g.t)
	p := disk
	p.hears = "kairos_begin" // of the prompt
	m := newModel(g.t, p)
	s := newSession(g.t, g.program, g.bin, w, m)
	chosen := g.program.menu("check-free-disk-space", "/")
	printed := s.run(g.t.Context(), chosen[0], chosen[1:]...)
	g.log = append(g.log, m.notebook(), "printed: "+printed)
	return works(m.ended())
}
