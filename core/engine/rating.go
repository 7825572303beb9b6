package engine

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/quality"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// How ratings are written: a few at a time, because nobody waits for them.
const (
	ratingsKept   = 10_000                 // waiting to be written; more are lost
	ratingsBatch  = 500                    // in one write
	ratingsLinger = 200 * time.Millisecond // for more to write at once
	ratingsWrite  = 5 * time.Second        // one write may take
)

// What a success and a failure of a step add to its quality bonus.
const (
	solvedBonus = 1
	failedBonus = -0.2
)

// unrated is a rating that lacks its grade, which is worked out when it is written.
type unrated struct {
	Rating
	space  string
	text   string // of the step
	agent  string // the model that wrote or attested; empty: not known
	attest bool
	grade  func(quality.Measure) quality.Grade
}

// graded works out the grade; measured holds the texts that were assessed already.
func (u unrated) graded(measured map[string]quality.Measure) unrated {
	if u.grade == nil {
		return u
	}
	m, ok := measured[u.text]
	if !ok {
		m = quality.Assess(u.text)
		measured[u.text] = m
	}
	g := u.grade(m)
	u.Score, u.Tier = g.Score, string(g.Tier)
	return u
}

func (u unrated) rated() Rated {
	return Rated{Space: u.space, Agent: u.agent, Outcome: u.Outcome, Attest: u.attest, Score: u.Score, Tier: u.Tier, Bonus: u.Bonus}
}

// rater writes ratings in the background. A rating never fails or delays the
// call that it comes from: what cannot be written is counted and lost.
type rater struct {
	store    Ratings
	observer Observer
	log      *slog.Logger

	mu      sync.Mutex // guards the fields below
	waiting []unrated
	writing bool
	closed  bool
	lost    int64
	hurry   chan struct{}  // closed by close
	done    sync.WaitGroup // the writing
}

func newRater(store Ratings, observer Observer, log *slog.Logger) *rater {
	return &rater{store: store, observer: observer, log: log, hurry: make(chan struct{})}
}

func (r *rater) add(ratings ...unrated) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil || len(ratings) == 0 {
		return
	}
	if r.closed || len(r.waiting)+len(ratings) > ratingsKept {
		r.lost += int64(len(ratings))
		r.observer.RatingsLost(ratings[0].space, len(ratings))
		return
	}
	r.waiting = append(r.waiting, ratings...)
	if !r.writing {
		r.writing = true
		r.done.Go(r.write)
	}
}

// write writes what waits, until nothing does.
func (r *rater) write() {
	for {
		linger := time.NewTimer(ratingsLinger)
		select {
		case <-linger.C:
		case <-r.hurry:
			linger.Stop()
		}
		batch, more := r.take()
		for space, ratings := range batch {
			r.flush(space, ratings)
		}
		if !more {
			return
		}
	}
}

// take returns the next ratings by space. Without any, the writing ends.
func (r *rater) take() (batch map[string][]unrated, more bool) {
	r.mu.Lock()
	n := min(len(r.waiting), ratingsBatch)
	next := r.waiting[:n]
	r.waiting = append(r.waiting[:0:0], r.waiting[n:]...)
	r.writing = n > 0
	r.mu.Unlock()
	batch = make(map[string][]unrated)
	measured := make(map[string]quality.Measure) // the steps of a protocol come again with each run
	for _, u := range next {
		batch[u.space] = append(batch[u.space], u.graded(measured))
	}
	return batch, n > 0
}

func (r *rater) flush(space string, graded []unrated) {
	ratings := make([]Rating, len(graded))
	for i, u := range graded {
		ratings[i] = u.Rating
	}
	ctx, cancel := context.WithTimeout(context.Background(), ratingsWrite)
	defer cancel()
	err := r.store.Rate(ctx, space, ratings)
	if err == nil {
		for _, u := range graded {
			r.observer.Rated(u.rated())
		}
		return
	}
	r.observer.RatingsLost(space, len(ratings))
	r.mu.Lock()
	r.lost += int64(len(ratings))
	lost := r.lost
	r.mu.Unlock()
	r.log.Warn("ratings of steps are lost", "ratings", len(ratings), "lost_since_start", lost, "error", err)
}

// close writes what waits and takes nothing more. It may be called twice.
func (r *rater) close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.hurry)
	}
	r.mu.Unlock()
	r.done.Wait()
}

// RatingsLost is how many ratings of steps could not be written since the start.
func (e *Engine) RatingsLost() int64 {
	e.ratings.mu.Lock()
	defer e.ratings.mu.Unlock()
	return e.ratings.lost
}

// rateStored rates the steps that are new or were changed. The others keep
// what they have earned.
func (e *Engine) rateStored(w rewrite, rater string) {
	before := make(map[string]string)
	if w.old != nil {
		for _, s := range w.old.Steps {
			before[s.UUID] = protocol.RenderStep(s)
		}
	}
	for _, s := range w.Chain.Steps {
		if before[s.UUID] != protocol.RenderStep(s) {
			u := e.unrated(w.Chain.Space, s, OutcomeStored, rater)
			u.Context, u.agent = plain.Clip(w.Chain.ModelID, maxModel), w.Chain.ModelID
			e.ratings.add(u)
		}
	}
}

func (e *Engine) unrated(space string, s protocol.Step, outcome Outcome, rater string) unrated {
	u := unrated{space: space, text: s.Text, Rating: Rating{Step: s.UUID, Outcome: outcome, Rater: rater, At: e.opt.Clock.Now()}}
	switch outcome {
	case OutcomeStored:
		u.grade = quality.Measure.Stored
	case OutcomeSuccess:
		u.grade = quality.Measure.Succeeded
	case OutcomeFailure:
		u.grade = quality.Measure.Failed
	case OutcomeRetrieved, OutcomePartial: // change no grade
	}
	return u
}

// rateEvents rates the steps that a change of the run solved, or failed at.
func (t *turn) rateEvents(events []run.Event) {
	for _, ev := range events {
		outcome, bonus := OutcomeSuccess, float64(solvedBonus)
		switch ev.Kind {
		case run.Accepted:
		case run.Rejected:
			outcome, bonus = OutcomeFailure, failedBonus
		default:
			continue
		}
		if i := ev.Step - 1; i >= 0 && i < len(t.chain.Steps) {
			u := t.e.unrated(t.chain.Space, t.chain.Steps[i], outcome, "kairos_next")
			u.Bonus, u.Context = bonus, plain.Clip(t.chain.Title, 200)
			t.e.ratings.add(u)
		}
	}
}

// maxAttested bounds what one attestation can add to a rating beside the base: its
// caller chooses the number.
const maxAttested = 5

// rateAttested rates the step that an attestation names, for want of one the
// first. Only a verified run is a success.
func (e *Engine) rateAttested(chain protocol.Chain, in api.AttestRequest, verified bool) {
	outcome, added := OutcomeFailure, baseBonus(in.Outcome)+min(max(in.QualityBonus, -maxAttested), maxAttested)
	switch {
	case in.Outcome == "success" && verified:
		outcome = OutcomeSuccess
	case in.Outcome == "success":
		outcome, added = OutcomePartial, 0
	}
	step := chain.Steps[0]
	for _, s := range chain.Steps {
		if strings.EqualFold(protocol.URI(s.UUID), in.URI) {
			step = s
		}
	}
	u := e.unrated(chain.Space, step, outcome, cmp.Or(plain.Clip(in.ModelID, maxModel), "kairos-attest"))
	u.Bonus, u.Context, u.agent, u.attest = added, plain.Clip(in.Message, 500), in.ModelID, true
	e.ratings.add(u)
}

// rateRetrieved counts that a search found the step.
func (e *Engine) rateRetrieved(h Hit) {
	s := h.Chain.Steps[min(h.Step, len(h.Chain.Steps)-1)]
	e.ratings.add(e.unrated(h.Chain.Space, s, OutcomeRetrieved, ""))
}
