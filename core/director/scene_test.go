package director_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// scene is the last step of a protocol, whose earlier steps the agent solves, and what
// happens at it, in order.
type scene struct {
	doc    string
	client driver.Client
	world  func(*testing.T) *world // nil: newWorld with change
	change func(*choices)
	knobs  []string // that are set from the start
	moves  []move
}

type move = func(*play)

// play is a scene under way.
type play struct {
	*world
	uri      string         // of the step
	round    director.Round // the last one
	shown    *api.StepReply // the last reply
	question *director.Ask  // the last question
}

func scenes(t *testing.T, all map[string]scene) {
	t.Helper()
	for name, s := range all {
		t.Run(name, func(t *testing.T) { s.play(t) })
	}
}

func (s scene) play(t *testing.T) {
	t.Helper()
	w := (*world)(nil)
	if s.world != nil {
		w = s.world(t)
	} else {
		w = newWorld(t, s.change)
	}
	w.caller.Client = s.client
	for _, knob := range s.knobs {
		w.drivers.set(knob, true)
	}
	uris := w.mint(s.doc)
	p := &play{world: w, uri: uris[len(uris)-1]}
	p.took(w.beginRound(uris[0], ""))
	for _, uri := range uris[:len(uris)-1] {
		p.took(w.nextRound(uri, solve(p.shown, `{"ok":true,"what":"x","more":true}`)))
	}
	for i, m := range s.moves {
		t.Logf("move %d", i+1)
		m(p)
	}
}

func (p *play) took(r director.Round) {
	p.round = r
	if r.Reply != nil {
		p.shown = r.Reply
	} else {
		p.question = r.Ask
	}
}

// The methods of questions, which stand where a code stands otherwise.
const (
	toPerson = "elicitation/create"
	toModel  = "sampling/createMessage"
	toRoots  = "roots/list"
)

// wants checks the last round: the code of its reply or the method of its question, and
// what it says.
func (p *play) wants(want string, says []string) {
	p.t.Helper()
	text := ""
	if strings.Contains(want, "/") {
		text = string(p.ask(p.round, want).Params)
	} else {
		p.code(p.reply(p.round), want)
		text = textOf(p.shown)
	}
	contains(p.t, text, says...)
}

// textOf is what a reply tells the agent in words.
func textOf(r *api.StepReply) string {
	return strings.Join([]string{r.Message, r.NextAction, r.Challenge.Description}, "\n")
}

// contains checks that a text has all of the parts; one that begins with "not: " it
// must lack.
func contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		part, absent := strings.CutPrefix(part, "not: ")
		if strings.Contains(text, part) == absent {
			t.Errorf("the text contains %q: %t, want the opposite:\n%s", part, absent, text)
		}
	}
}

// begun checks what the call got that came to the step.
func begun(want string, says ...string) move {
	return func(p *play) { p.t.Helper(); p.wants(want, says) }
}

// sends submits evidence.
func sends(evidence, want string, says ...string) move {
	return submits(func(r *api.StepReply) string { return solve(r, evidence) }, want, says...)
}

// calls sends the placeholder.
func calls(want string, says ...string) move { return submits(placeholder, want, says...) }

func submits(solution func(*api.StepReply) string, want string, says ...string) move {
	return func(p *play) {
		p.t.Helper()
		p.took(p.nextRound(p.uri, solution(p.shown)))
		p.wants(want, says)
	}
}

// nothing is a call without a solution.
func nothing(*api.StepReply) string { return "" }

// as is a solution of another type than that of the challenge.
func as(typ, evidence string) func(*api.StepReply) string {
	return func(r *api.StepReply) string { return solveAs(r, typ, evidence) }
}

// answers replies to the last question.
func answers(result, want string, says ...string) move {
	return func(p *play) {
		p.t.Helper()
		p.took(p.answer(p.question, result))
		p.wants(want, says)
	}
}

// breaksDown: the client fails at the last question.
func breaksDown(want string, says ...string) move {
	return func(p *play) {
		p.t.Helper()
		p.took(p.fails(p.question))
		p.wants(want, says)
	}
}

// givesUp: the server gives up waiting for the answer to the last question.
func givesUp(want string, says ...string) move {
	return func(p *play) {
		p.t.Helper()
		p.took(p.unanswered(p.question))
		p.wants(want, says)
	}
}

// waiting: the client cannot wait any longer for the answer to the last question.
func waiting(p *play) {
	p.t.Helper()
	r, err := p.Waiting(p.t.Context(), p.caller, p.question.Run, p.question.Seq)
	if err != nil {
		p.t.Fatal(err)
	}
	p.took(director.Round{Reply: &r})
}

// onPage decides by the link of the last reply.
func onPage(decision string) move {
	return func(p *play) { p.t.Helper(); p.decide(p.shown, decision, "") }
}

// through changes the client.
func through(c driver.Client) move { return func(p *play) { p.caller.Client = c } }

func passes(d time.Duration) move { return func(p *play) { p.machine.Pass(d) } }

func sets(knob string, on bool) move { return func(p *play) { p.drivers.set(knob, on) } }

// solved checks the steps that the last call solved, by who vouches for each.
func solved(by ...driver.Provenance) move {
	return func(p *play) {
		p.t.Helper()
		if got := vouchers(p.shown); !slices.Equal(got, by) {
			p.t.Errorf("solved are steps by %q, want by %q: %s %+v", got, by, p.shown.Message, p.shown.Solved)
		}
	}
}

var solvedInWords = regexp.MustCompile(`Step (\d+) is solved \(([a-z-]+)`)

// vouchers lists who vouches for each step that a reply says is solved, in their order. Those that
// the agent reported itself are named in the message only.
func vouchers(r *api.StepReply) []driver.Provenance {
	by := map[int]driver.Provenance{}
	for _, m := range solvedInWords.FindAllStringSubmatch(r.Message, -1) {
		step, _ := strconv.Atoi(m[1]) // digits
		by[step] = driver.Provenance(m[2])
	}
	for _, s := range r.Solved {
		by[s.StepIndex] = s.Provenance
	}
	var all []driver.Provenance
	for _, step := range slices.Sorted(maps.Keys(by)) {
		all = append(all, by[step])
	}
	return all
}

// counted checks retry_count.
func counted(n int) move {
	return func(p *play) {
		p.t.Helper()
		if got := p.shown.RetryCount; got == nil && n > 0 || got != nil && *got != n {
			p.t.Errorf("retry_count differs from %d: %+v", n, p.shown)
		}
	}
}

// obeyed checks must_obey, and that there is a call to make if there must be one.
func obeyed(must bool) move {
	return func(p *play) {
		p.t.Helper()
		if p.shown.MustObey != must || (p.shown.NextCall != nil) != must {
			p.t.Errorf("must_obey %v, next_call %+v, want it to be obeyed: %v", p.shown.MustObey, p.shown.NextCall, must)
		}
	}
}

// happened checks the moments of the run by what happened and through which driver.
func happened(want ...string) move {
	return func(p *play) {
		p.t.Helper()
		var got []string
		for _, m := range p.timeline(p.shown).Moments {
			got = append(got, fmt.Sprintf("%s %s", m.What, m.Via))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			p.t.Errorf("timeline (-want +got):\n%s", diff)
		}
	}
}

// timeline is what happened in the run of a reply.
func (w *world) timeline(r *api.StepReply) archive.Timeline {
	w.t.Helper()
	line, err := w.Timeline(w.t.Context(), w.caller, runOf(r))
	if err != nil {
		w.t.Fatal(err)
	}
	return line
}

// moment is the only one that happened with that name.
func (w *world) moment(r *api.StepReply, what string) archive.Moment {
	w.t.Helper()
	found := slices.DeleteFunc(w.timeline(r).Moments, func(m archive.Moment) bool { return m.What != what })
	if len(found) != 1 {
		w.t.Fatalf("%d moments are %s, want one", len(found), what)
	}
	return found[0]
}

// refused checks the code and the words of an error.
func refused(t testing.TB, err error, code fault.Code, says ...string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code {
		t.Errorf("error = %.400v, want %s", err, code)
		return
	}
	contains(t, f.Message+"\n"+f.Next(), says...)
}
