package offers

import (
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

// In which runs an acceptance counts.
const (
	CountsInEvery   = "every-run"
	CountsInItsRun  = "one-run"
	CountsInEarlier = "earlier-runs" // the protocol was edited or deleted since
	CountsInNone    = "none"         // its run has ended
)

// Entry is an acceptance, and where it counts.
type Entry struct {
	acceptances.Acceptance
	Counts string `json:"counts"`
}

// Entries lists the acceptances of the caller's spaces, the newest first, and says of each
// where it counts.
func (o *Offers) Entries(ctx context.Context, c access.Caller) ([]Entry, error) {
	all, err := o.acceptances.Accepted(ctx, c)
	if err != nil {
		return nil, err
	}
	entries, known := make([]Entry, len(all)), map[[3]string]string{}
	for i, a := range all {
		of := [3]string{a.Space, a.Chain, a.Protocol}
		if a.Run != "" {
			of = [3]string{string(a.Run)}
		}
		counts, ok := known[of]
		if !ok {
			if counts, err = o.counts(ctx, a); err != nil {
				return nil, err
			}
			known[of] = counts
		}
		entries[i] = Entry{a, counts}
	}
	return entries, nil
}

func (o *Offers) counts(ctx context.Context, a acceptances.Acceptance) (string, error) {
	if a.Run != "" {
		switch live, err := o.live(ctx, a.Run); {
		case err != nil:
			return "", err
		case live:
			return CountsInItsRun, nil
		}
		return CountsInNone, nil
	}
	chain, err := o.protocols.Chain(ctx, []string{a.Space}, a.Chain)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return CountsInEarlier, nil
	case err != nil:
		return "", fmt.Errorf("look up the protocol %q that was accepted: %w", a.Title, err)
	}
	digest, err := chain.ContentDigest()
	switch {
	case err != nil:
		return "", err
	case digest != a.Protocol:
		return CountsInEarlier, nil
	}
	return CountsInEvery, nil
}

func (o *Offers) live(ctx context.Context, id run.ID) (bool, error) {
	standing, err := o.runs.Standing(ctx, id)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up run %s: %w", id, err)
	}
	return standing.Run.State.Live(), nil
}
