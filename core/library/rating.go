package library

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Ratings are written in batches, because no caller waits for them.
const (
	ratingsKept   = 10_000                 // waiting to be written; more are lost
	ratingsBatch  = 500                    // in one write
	ratingsLinger = 200 * time.Millisecond // before a write, to collect more
	ratingsWrite  = 5 * time.Second        // one write may take
)

// grades are the scores and classes that clients know. They follow from the last
// outcome alone; whoever wants more counts the outcomes.
var grades = map[Outcome]struct {
	score int
	tier  string
}{
	OutcomeStored:  {2, "standard"},
	OutcomeSuccess: {6, "excellent"},
	OutcomeFailure: {1, "basic"},
}

// FirstQuality is the quality of a step that nobody has rated yet. It is not stored: ratings
// are written in the background, after the step.
func FirstQuality() api.Quality {
	grade := grades[OutcomeStored]
	return api.Quality{Score: grade.score, Tier: grade.tier}
}

// unwritten is a rating that waits to be written.
type unwritten struct {
	Rating
	space  string
	agent  string // the model that wrote or attested; may be empty
	attest bool
}

func (u unwritten) rated() Rated {
	return Rated{Space: u.space, Agent: u.agent, Outcome: u.Outcome, Attest: u.attest, Score: u.Score, Tier: u.Tier, Bonus: u.Bonus}
}

// rater writes ratings in the background. A rating never fails or delays the call
// that causes it: ratings that cannot be written are counted and dropped.
type rater struct {
	store    Ratings
	observer Observer
	clock    *clock.Clock
	log      *slog.Logger

	mu      sync.Mutex // guards the fields below
	waiting []unwritten
	writing bool
	closed  bool
	lost    int64
	hurry   chan struct{}  // closed by close
	done    sync.WaitGroup // the writing
}

func newRater(store Ratings, observer Observer, c *clock.Clock, log *slog.Logger) *rater {
	return &rater{store: store, observer: observer, clock: c, log: log, hurry: make(chan struct{})}
}

func (r *rater) add(ratings ...unwritten) {
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

// write writes the waiting ratings until there are none.
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

// take returns the next ratings by space. Without any, the background write ends.
func (r *rater) take() (batch map[string][]unwritten, more bool) {
	r.mu.Lock()
	n := min(len(r.waiting), ratingsBatch)
	next := r.waiting[:n]
	r.waiting = append(r.waiting[:0:0], r.waiting[n:]...)
	r.writing = n > 0
	r.mu.Unlock()
	batch = make(map[string][]unwritten)
	for _, u := range next {
		batch[u.space] = append(batch[u.space], u)
	}
	return batch, n > 0
}

func (r *rater) flush(space string, batch []unwritten) {
	ratings := make([]Rating, len(batch))
	for i, u := range batch {
		ratings[i] = u.Rating
	}
	ctx, cancel := context.WithTimeout(context.Background(), ratingsWrite)
	defer cancel()
	err := r.store.Rate(ctx, space, ratings)
	if err == nil {
		for _, u := range batch {
			r.observer.Rated(u.rated())
		}
		return
	}
	r.observer.RatingsLost(space, len(ratings))
	r.mu.Lock()
	r.lost += int64(len(ratings))
	lost := r.lost
	r.mu.Unlock()
	r.log.Warn("ratings of steps were dropped", "ratings", len(ratings), "lost_since_start", lost, "error", err)
}

// close writes the waiting ratings and accepts no more. It may be called twice.
func (r *rater) close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.hurry)
	}
	r.mu.Unlock()
	r.done.Wait()
}

// lostRatings returns how many ratings of steps could not be written since the
// start.
func (r *rater) lostRatings() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// rateStored rates the steps that are new or changed. The others keep their
// ratings.
func (r *rater) rateStored(w rewrite, rater string) {
	before := make(map[string]string)
	if w.old != nil {
		for _, s := range w.old.Steps {
			before[s.UUID] = protocol.RenderStep(s)
		}
	}
	for _, s := range w.Chain.Steps {
		if before[s.UUID] != protocol.RenderStep(s) {
			r.rate(StepRating{
				Space: w.Chain.Space, Step: s, Outcome: OutcomeStored, Rater: rater,
				Context: plain.Clip(w.Chain.ModelID, maxModel), Agent: w.Chain.ModelID,
			})
		}
	}
}

// StepRating is a rating of a step of a protocol.
type StepRating struct {
	Space   string
	Step    protocol.Step
	Outcome Outcome
	Bonus   float64 // added to the bonus of the step
	// Rater and Context say who rated and why; an empty Rater keeps those of the
	// step.
	Rater, Context string
	Agent          string // the model that wrote or attested; may be empty
	Attest         bool   // it comes from an attestation
}

// rate rates a step in the background. Its grade follows from the outcome.
func (r *rater) rate(s StepRating) {
	grade := grades[s.Outcome] // the other outcomes keep the grade of the step
	r.add(unwritten{space: s.Space, agent: s.Agent, attest: s.Attest, Rating: Rating{
		Step: s.Step.UUID, Outcome: s.Outcome, Score: grade.score, Tier: grade.tier, Bonus: s.Bonus,
		Rater: plain.Clip(s.Rater, maxModel), Context: s.Context, At: r.clock.Now(),
	}})
}

// rateRetrieved records, for its first step, that a search found a protocol.
func (r *rater) rateRetrieved(f search.Found) {
	r.rate(StepRating{Space: f.Space, Step: protocol.Step{UUID: f.UUID}, Outcome: OutcomeRetrieved})
}
