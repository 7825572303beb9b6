package terminal

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// exchange keeps what the server asked its client. Methods may be called concurrently.
type exchange struct {
	mu   sync.Mutex
	last asked
}

// asked is what the server asked during the present call, and what became of its last
// question.
type asked struct {
	anything, form bool
	// onlyApproved: the forms of the present call were approvals.
	onlyApproved bool
	dismissed    bool   // the person closed the question without an answer
	notAccepted  bool   // the person did not accept that KAIROS does steps itself
	approved     string // the last question that the person answered with "approved"
}

// note changes what is known.
func (e *exchange) note(change func(*asked)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.last)
}

func (e *exchange) known() (last asked) {
	e.note(func(a *asked) { last = *a })
	return last
}

// takeApproved returns the question that was approved last, once: work that is
// done again is asked for again.
func (e *exchange) takeApproved() (question string) {
	e.note(func(a *asked) { question, a.approved = a.approved, "" })
	return question
}

// itself reports whether the client gave what the present call was about, rather than
// a mere approval.
func (a asked) itself() bool { return a.anything && (!a.form || !a.onlyApproved) }

// inFlight counts the server's questions that are being answered.
type inFlight struct {
	mu   sync.Mutex
	open int
	idle chan struct{} // closed when open falls to 0
}

// begin counts a question until the returned function is called.
func (f *inFlight) begin() (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open++; f.open == 1 {
		f.idle = make(chan struct{})
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.open--; f.open == 0 {
			close(f.idle)
		}
	}
}

// wait returns when no question is being answered.
func (f *inFlight) wait(ctx context.Context) error {
	f.mu.Lock()
	idle, open := f.idle, f.open
	f.mu.Unlock()
	if open == 0 {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// steps shows the heading of each step once, in front of the first question about
// it. Methods may be called concurrently.
type steps struct {
	console *console
	timed   bool // how long the run has taken is shown
	began   time.Time

	mu    sync.Mutex // guards the fields below
	shown int        // index of the step that was shown last
	due   bool       // its text was not known then
}

func (s *steps) show(index, count int, title, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index != s.shown {
		s.console.mark(markStep, "\nStep %d of %d: %s%s", index, count, title, s.elapsed())
	}
	if index != s.shown || s.due {
		s.console.quote(body)
	}
	s.shown, s.due = index, body == ""
}

// elapsed is how long the run has taken, for a person who watches it.
func (s *steps) elapsed() string {
	if since := time.Since(s.began); s.timed && since >= time.Second {
		return fmt.Sprintf(" (%s)", since.Round(time.Second))
	}
	return ""
}

// aboutStep is how questions of the server begin that name their step.
var aboutStep = regexp.MustCompile(`^(?:Approve step|Step) (\d+) of (\d+), ("(?:[^"\\]|\\.)*"), `)

// introduce shows the step that a question is about, if it is a later one than the
// last that was shown: a call may carry out a step and ask about the next one.
func (s *steps) introduce(question string) {
	m := aboutStep.FindStringSubmatch(question)
	if m == nil {
		return
	}
	index, indexErr := strconv.Atoi(m[1])
	count, countErr := strconv.Atoi(m[2])
	title, titleErr := strconv.Unquote(m[3])
	s.mu.Lock()
	later := index > s.shown
	s.mu.Unlock()
	if indexErr == nil && countErr == nil && titleErr == nil && later {
		s.show(index, count, clip(title), "")
	}
}

// A person may be asked at an address instead of here: the host shows it and
// asks whether they go there, and the server says when they have answered. What
// they answer does not pass through the host.

// elicitAt answers an elicitation in url mode.
func (h *host) elicitAt(ctx context.Context, params mcp.ElicitationParams) (*mcp.ElicitationResult, error) {
	d, err := h.sendTo(ctx, params.Message, params.URL)
	if err != nil {
		return nil, err
	}
	res := &mcp.ElicitationResult{}
	res.Action = map[verb]mcp.ElicitationResponseAction{
		verbRun: mcp.ElicitationResponseActionAccept, verbDecline: mcp.ElicitationResponseActionDecline,
		verbCancel: mcp.ElicitationResponseActionCancel,
	}[d.verb]
	h.console.say("address: %s", res.Action)
	if d.verb == verbRun {
		h.visits.began(params.URL)
	}
	return res, nil
}

// visit shows the address that the server gave the agent to show, once.
func (h *host) visit(ctx context.Context, r stepReply) error {
	if h.visits.knows(r.ApprovalURL) {
		return nil
	}
	if !h.cfg.visits() {
		return &StopError{Code: StopRefused, Message: "nobody is here to answer at " + r.ApprovalURL, NextAction: r.NextAction}
	}
	due := fmt.Sprintf("Step %d of %d, %s, waits for a person's answer.", r.StepIndex, r.StepCount, stepTitle(r))
	d, err := h.sendTo(ctx, due, r.ApprovalURL)
	if err != nil {
		return err
	}
	if d.verb != verbRun {
		stop := refusal("the visit of " + r.ApprovalURL)
		stop.NextAction = r.NextAction
		return stop
	}
	h.visits.began(r.ApprovalURL)
	return nil
}

// visits are the addresses that the person went to. Safe for concurrent use.
type visits struct {
	console *console

	mu   sync.Mutex // guards the fields below
	been map[string]bool
	away bool // what they answer at the last one is still waited for
}

func (v *visits) knows(address string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.been[address]
}

func (v *visits) began(address string) {
	v.mu.Lock()
	v.been[address], v.away = true, true
	v.mu.Unlock()
	v.console.say("waiting for what is answered there; an interrupt leaves the run open")
}

// sendTo asks whether the person goes to the address. Without a person it is
// a cancel and not a decline: nobody chose.
func (h *host) sendTo(ctx context.Context, message, address string) (decision, error) {
	if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || plain.Line(address) != address {
		return decision{}, fmt.Errorf("the server sends you to %q, which is not a web address", address)
	}
	q := question{kind: KindVisit, text: message + "\n\n" + address}
	if h.cfg.Open != nil {
		q.open = func(ctx context.Context) error { return h.cfg.Open(ctx, address) }
	}
	d, err := h.decide(ctx, q)
	if errors.Is(err, errNoInput) {
		h.console.say("nobody is here to open the address")
		return decision{verb: verbCancel}, nil
	}
	return d, err
}

// notified tells the person that the server has what they answered. The reply to the
// call may be here before the notification.
func (h *host) notified(n mcp.JSONRPCNotification) {
	if n.Method == string(mcp.MethodNotificationElicitationComplete) {
		h.visits.ended()
	}
}

// ended tells it once.
func (v *visits) ended() {
	v.mu.Lock()
	was := v.away
	v.away = false
	v.mu.Unlock()
	if was {
		v.console.say("the server has the answer that was given there")
	}
}

func (p person) visit(ctx context.Context, q question) (decision, error) {
	options := []string{"yes", "no", "cancel"}
	if q.open != nil {
		options = append([]string{"open it for me"}, options...)
	}
	got, err := p.by.choose(ctx, "Will you open it and answer there?", options...)
	if err != nil {
		return decision{}, err
	}
	switch got {
	case "no":
		return decision{verb: verbDecline}, nil
	case "cancel":
		return decision{verb: verbCancel}, nil
	case "open it for me":
		if err := q.open(ctx); err != nil {
			p.console.say("  it cannot be opened from here (%v): open it yourself", err)
		}
	}
	return decision{verb: verbRun}, nil
}
