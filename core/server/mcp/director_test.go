package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const stepURI = "kairos://mem/00000000-0000-0000-0000-00000000000a"

// fakeDirector is an engine whose protocol asks the client its questions, one after
// another, and then replies with what it heard. It keeps the rules that the
// exchange relies on: a question keeps its seq while the connection holds it, a
// repeat returns the recorded round, another answer is a replay.
type fakeDirector struct {
	asks    []director.Ask // Run and Seq are filled in
	wait    time.Duration  // of every question; 0: the call's CanWait
	err     error          // knob: what every call but Continue fails with
	patient bool           // knob: asks for ever, see Unanswered
	// prompts of each space.
	prompts map[string][]api.Prompt
	// titles of the protocols there are, a page at a time; nil: one.
	titles []string
	page   int
	// answeredOnPage, if set: who has answered the questions still waits for a
	// person on a page, until it is closed.
	answeredOnPage chan struct{}
	// retries is how often a driver is still asked before it has its outcome;
	// between them it wants to be left alone for retryAfter.
	retries    int
	retryAfter time.Duration
	retryAt    time.Time // when it was asked last, and retryAfter later
	// left is what earlier sessions left open.
	left *director.Unfinished
	// continued gets every answer, with the caller it was taken for.
	continued chan heard

	mu      sync.Mutex // guards the fields below
	runs    map[run.ID]*played
	last    run.ID
	callers []access.Caller
	begins  []api.BeginRequest
	nexts   []api.NextRequest
	mints   []api.MintRequest
	waits   int
}

type heard struct {
	director.Continuation
	Caller access.Caller
}

type played struct {
	id      run.ID
	seq     int64
	answers []director.Continuation
	rounds  map[int64]director.Round
	taken   map[int64]director.Continuation
	// unanswered counts the rounds without an answer to the question of this seq.
	unanswered map[int64]int
}

func newDirector(asks ...director.Ask) *fakeDirector {
	return &fakeDirector{asks: asks, runs: map[run.ID]*played{}, continued: make(chan heard, 1000)}
}

func elicit(message string) director.Ask {
	params := fmt.Sprintf(`{"message":%q,"requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}`, message)
	return director.Ask{Method: "elicitation/create", Params: json.RawMessage(params), Human: true}
}

func sample(prompt string) director.Ask {
	params := fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}],"maxTokens":10,`+
		`"temperature":0,"metadata":{"kairos":{"approval":"auto"}}}`, prompt)
	return director.Ask{Method: "sampling/createMessage", Params: json.RawMessage(params)}
}

func (d *fakeDirector) Begin(_ context.Context, c access.Caller, in api.BeginRequest) (director.Round, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.callers = append(d.callers, c)
	d.begins = append(d.begins, in)
	if d.err != nil {
		return director.Round{}, d.err
	}
	id := run.ID(fmt.Sprintf("run-%d", len(d.runs)+1))
	d.last = id
	d.runs[id] = &played{
		id: id, rounds: map[int64]director.Round{}, taken: map[int64]director.Continuation{}, unanswered: map[int64]int{},
	}
	return d.open(c, d.runs[id]), nil
}

func (d *fakeDirector) Next(_ context.Context, c access.Caller, in api.NextRequest) (director.Round, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.callers = append(d.callers, c)
	d.nexts = append(d.nexts, in)
	if d.err != nil {
		return director.Round{}, d.err
	}
	id := run.ID(in.RunID)
	if id == "" {
		id = d.last
	}
	r, ok := d.runs[id]
	if !ok {
		return director.Round{}, fault.New(fault.NoOpenRun, "no open run").WithNext("call kairos_begin with %s", in.URI)
	}
	return d.open(c, r), nil
}

// needsOf is what the ask names itself, or what MCP demands for it.
func needsOf(a director.Ask) []string {
	if a.Needs != nil {
		return a.Needs
	}
	needs, _ := driver.Descriptor{}.Demands(driver.ClientRequest{Method: a.Method, Params: a.Params})
	return needs
}

func (d *fakeDirector) open(c access.Caller, r *played) director.Round {
	if d.retries > 0 {
		return d.waitsForDriver(c, r)
	}
	if len(r.answers) >= len(d.asks) && d.answeredOnPage != nil && !c.Detached {
		return director.Round{Reply: waitingReply(r.id), Pending: &director.Pending{Run: r.id, Seq: r.seq}}
	}
	if len(r.answers) >= len(d.asks) {
		return director.Round{Reply: r.reply()}
	}
	if c.Detached {
		return director.Round{Reply: waitingReply(r.id)}
	}
	if r.seq == 0 || r.taken[r.seq].Run != "" || c.Holding == nil || !c.Holding(r.id, r.seq) {
		r.seq++
	}
	a := d.asks[len(r.answers)]
	a.Run, a.Seq, a.Wait, a.Needs = r.id, r.seq, d.wait, needsOf(a)
	if a.Wait == 0 {
		a.Wait = c.CanWait
	}
	return director.Round{Ask: &a}
}

func (d *fakeDirector) Continue(ctx context.Context, c access.Caller, in director.Continuation) (director.Round, error) {
	if err := ctx.Err(); err != nil {
		return director.Round{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.runs[in.Run]
	if !ok {
		return director.Round{}, fault.New(fault.NoOpenRun, "no run %q", in.Run)
	}
	if before, ok := r.taken[in.Seq]; ok {
		if cmp.Diff(before, in) != "" {
			return director.Round{}, fault.New(fault.Replayed, "answered otherwise before")
		}
		return r.rounds[in.Seq], nil
	}
	if in.Seq != r.seq {
		return director.Round{}, fault.New(fault.Replayed, "an older question")
	}
	r.taken[in.Seq] = in
	r.answers = append(r.answers, in)
	r.rounds[in.Seq] = d.open(c, r)
	d.continued <- heard{in, c}
	return r.rounds[in.Seq], nil
}

// Unanswered asks again once, then continues without the answer, or waits for the
// person. A patient director asks again for ever.
func (d *fakeDirector) Unanswered(_ context.Context, c access.Caller, id run.ID, seq int64) (director.Round, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.runs[id]
	if !ok || seq != r.seq || len(r.answers) >= len(d.asks) {
		return director.Round{}, fault.New(fault.NoOpenRun, "question %d of run %q is not open", seq, id)
	}
	a := d.asks[len(r.answers)]
	if r.unanswered[seq]++; r.unanswered[seq] < 2 || d.patient {
		a.Run, a.Seq, a.Wait, a.Needs = id, seq, c.CanWait, needsOf(a)
		return director.Round{Ask: &a}, nil
	}
	if a.Human {
		return director.Round{Reply: waitingReply(id)}, nil
	}
	r.answers = append(r.answers, director.Continuation{Run: id, Seq: seq, Error: &driver.ClientError{Message: "abandoned"}})
	r.seq++
	return d.open(c, r), nil
}

func (d *fakeDirector) Waiting(_ context.Context, _ access.Caller, id run.ID, _ int64) (api.StepReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits++
	return *waitingReply(id), nil
}

// Settled waits for answeredOnPage, which a director without one never is.
func (d *fakeDirector) Settled(ctx context.Context, _ run.ID, _ int64) error {
	select {
	case <-d.answeredOnPage:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Retried asks the driver again. A detached caller only hears where it stands.
func (d *fakeDirector) Retried(ctx context.Context, c access.Caller, l director.Later) (director.Round, error) {
	if err := ctx.Err(); err != nil {
		return director.Round{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !c.Detached {
		d.retries, d.retryAt = d.retries-1, time.Time{}
	}
	return d.open(c, d.runs[l.Run]), nil
}

// waitsForDriver is the round of a driver that is done by one more hundredth each
// time it is asked.
func (d *fakeDirector) waitsForDriver(c access.Caller, r *played) director.Round {
	if d.retryAt.IsZero() {
		d.retryAt = time.Now().Add(d.retryAfter)
	}
	done, left := 1-float64(d.retries)/100, time.Until(d.retryAt)
	s := stepReply(r.id)
	s.ErrorCode, s.Message = string(fault.WaitingForDriver), "A build is running."
	s.RetryAfter, s.Progress, s.ProgressMessage = new(left.Seconds()), &done, "Compiling."
	round := director.Round{Reply: &s}
	if !c.Detached {
		round.Later = &director.Later{Run: r.id, Step: 1, After: left, Driver: "builder", Message: s.ProgressMessage, Progress: &done}
	}
	return round
}

func (d *fakeDirector) Resumed(_ context.Context, _ access.Caller, p director.Pending) (api.StepReply, error) {
	r := stepReply(p.Run)
	r.Message = "Approved on the page."
	return r, nil
}

func (d *fakeDirector) Unfinished(context.Context, access.Caller) (*director.Unfinished, error) {
	return d.left, nil
}

func waitingReply(id run.ID) *api.StepReply {
	r := stepReply(id)
	r.ErrorCode = string(fault.WaitingForUser)
	r.Message = "A person is being asked."
	return &r
}

// reply tells what the client answered, as the output of solved steps.
func (r *played) reply() *api.StepReply {
	s := stepReply(r.id)
	for i, a := range r.answers {
		out := a.Result
		if a.Error != nil {
			out, _ = json.Marshal(map[string]any{"client_error": a.Error}) // a struct of two fields encodes
		}
		s.Solved = append(s.Solved, api.Solved{StepIndex: i + 1, Driver: "d", Via: "v", Output: out})
	}
	return &s
}

func stepReply(id run.ID) api.StepReply {
	return api.StepReply{
		MustObey: true, RunID: string(id),
		CurrentStep: api.CurrentStep{URI: stepURI, Content: "## Step <1> & more", MIMEType: "text/markdown"},
		Challenge: api.Challenge{
			Type: "shell", Description: "Run it", Nonce: "n", ProofHash: "h", Display: json.RawMessage(`{"cmd":"a && b"}`),
		},
		NextAction: "call kairos_next with " + stepURI, StepIndex: 1, StepCount: 2,
		NextCall: &api.NextCall{Tool: "kairos_next", Arguments: json.RawMessage(`{"uri":"` + stepURI + `","solution":{"shell":"<integer: code>"}}`)},
	}
}

func (d *fakeDirector) Attest(_ context.Context, _ access.Caller, in api.AttestRequest) (api.AttestReply, error) {
	return api.AttestReply{
		Results:    []api.AttestResult{{URI: in.URI, Outcome: in.Outcome, QualityBonus: in.QualityBonus, Message: in.Message}},
		TotalRated: 1,
	}, d.err
}

func (d *fakeDirector) Search(_ context.Context, _ access.Caller, in api.SearchRequest) (api.SearchReply, error) {
	return api.SearchReply{
		MustObey: true, Message: fmt.Sprintf("%s|%s|%s|%d|%s", in.Query, in.Space, in.SpaceID, in.Limit, strings.Join(in.Queries, ",")),
		Confidence: api.ConfidenceNone, NextAction: "follow the choice's next_action",
		Choices: []api.Choice{{
			URI: stepURI, Label: "l", Role: "create", Tags: []string{}, NextAction: "kairos_begin",
		}},
	}, d.err
}

func (d *fakeDirector) Mint(_ context.Context, _ access.Caller, in api.MintRequest) (api.MintReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mints = append(d.mints, in)
	item := api.MintItem{URI: stepURI, MemoryUUID: stepURI[len(stepURI)-36:], Label: "l", Tags: []string{"a"}}
	return api.MintReply{Items: []api.MintItem{item}, Status: "stored"}, d.err
}

func (d *fakeDirector) Update(_ context.Context, _ access.Caller, in api.UpdateRequest) (api.UpdateReply, error) {
	return api.UpdateReply{Results: items[api.UpdateResult](in.URIs, "updated"), TotalUpdated: len(in.URIs)}, d.err
}

func (d *fakeDirector) Delete(_ context.Context, _ access.Caller, in api.DeleteRequest) (api.DeleteReply, error) {
	return api.DeleteReply{Results: items[api.DeleteResult](in.URIs, "deleted"), TotalDeleted: len(in.URIs)}, d.err
}

func items[Result api.UpdateResult | api.DeleteResult](uris []string, status string) []Result {
	out := []Result{}
	for _, u := range uris {
		out = append(out, Result(api.UpdateResult{URI: u, Status: status}))
	}
	return out
}

func (d *fakeDirector) Dump(_ context.Context, _ access.Caller, in api.DumpRequest) (api.DumpReply, error) {
	return api.DumpReply{Document: fmt.Sprint("# doc ", in.Protocol), URI: in.URI, Label: "l"}, d.err
}

func (d *fakeDirector) Part(_ context.Context, _ access.Caller, in api.DumpRequest) (api.DumpReply, error) {
	return api.DumpReply{Document: "# part", URI: in.URI, Label: "l", Part: in.Part, Parts: in.Part}, d.err
}

func (d *fakeDirector) Spaces(_ context.Context, _ access.Caller, in api.SpacesRequest) (api.SpacesReply, error) {
	titles := d.titles
	if titles == nil {
		titles = []string{"t"}
	}
	info := api.SpaceInfo{Name: "Kairos app", ChainCount: len(titles)}
	reply := api.SpacesReply{NextCursor: in.Cursor + fmt.Sprint(in.Limit)}
	from := 0
	if d.titles != nil {
		if _, err := fmt.Sscan(in.Cursor, &from); err != nil && in.Cursor != "" {
			return reply, err
		}
		to := min(from+d.page, len(titles))
		reply.NextCursor, titles = "", titles[from:to]
		if to < len(d.titles) {
			reply.NextCursor = fmt.Sprint(to)
		}
	}
	if in.Titles {
		for i, title := range titles {
			uri := fmt.Sprintf("kairos://mem/00000000-0000-0000-0000-%012x", from+i+1)
			info.Chains = append(info.Chains, api.ChainInfo{ChainID: "c", URI: uri, Title: title, StepCount: 2})
		}
	}
	reply.Spaces = []api.SpaceInfo{info}
	return reply, d.err
}

func (d *fakeDirector) Prompts(_ context.Context, c access.Caller, _ ...string) ([]api.Prompt, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []api.Prompt
	for _, space := range c.Spaces() {
		out = append(out, d.prompts[space]...)
	}
	return out, d.err
}

// lastClient is what the engine was told of the client at the last begin or next.
func (d *fakeDirector) lastClient() driver.Client { return d.lastCaller().Client }

func (d *fakeDirector) lastCaller() access.Caller {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.callers[len(d.callers)-1]
}

// forget makes the run's open question an old one, whoever holds it.
func (d *fakeDirector) forget(id run.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runs[id].seq++
}

// begun waits for the first run.
func (d *fakeDirector) begun(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		n := len(d.runs)
		d.mu.Unlock()
		if n > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no run was begun")
		}
	}
}
