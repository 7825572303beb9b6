// Package declines remembers what people declined, beyond the run in which they did.
// An action is what would be done, whatever protocol and run ask for it.
package declines

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/run"
)

// Decline is a person's last decision about an action, which was not to do it.
type Decline struct {
	Space string `json:"space"`
	// Action is the Digest of what would have been done.
	Action string    `json:"action"`
	Run    run.ID    `json:"run"`
	Step   int       `json:"step"` // 1-based
	Label  string    `json:"label"`
	Title  string    `json:"title"`
	Via    string    `json:"via"` // the driver that asked
	At     time.Time `json:"at"`
}

// Store keeps declines, the latest of each action. Its methods are called concurrently.
type Store interface {
	// SaveDecline keeps the decline in place of an earlier one of the same action,
	// and removes those of the space from before a time.
	SaveDecline(ctx context.Context, d Decline, before time.Time) error
	// DeclineOf returns the decline of an action, if there is one.
	DeclineOf(ctx context.Context, space, action string) (Decline, bool, error)
	// RemoveDecline removes the decline of an action, if there is one.
	RemoveDecline(ctx context.Context, space, action string) error
}

// Declines remembers declines for a while. Its methods may be called concurrently.
type Declines struct {
	store Store
	clock *clock.Clock
	keep  time.Duration
}

// New returns the declines of a store, which are remembered for a time; zero, or a
// nil store: nothing is. Nil clock: this machine's.
func New(store Store, c *clock.Clock, keep time.Duration) *Declines {
	return &Declines{store: store, clock: cmp.Or(c, clock.System()), keep: keep}
}

// Digest is the action of a challenge: its type, what it would have done with all
// values filled in, and what the agent chose, if anything. Titles, texts and labels
// are not part of it.
func Digest(typ string, filled, proposed json.RawMessage) (string, error) {
	b, err := json.Marshal(struct {
		Type     string          `json:"type"`
		Filled   json.RawMessage `json:"filled,omitempty"`
		Proposed json.RawMessage `json:"proposed,omitempty"`
	}{typ, filled, proposed})
	if err != nil {
		return "", fmt.Errorf("write the action: %w", err)
	}
	return run.Digest(b)
}

func (d *Declines) off() bool { return d.store == nil || d.keep <= 0 }

// Remember keeps a decline that was made now.
func (d *Declines) Remember(ctx context.Context, decline Decline) error {
	if d.off() {
		return nil
	}
	decline.At = d.clock.Now().UTC()
	if err := d.store.SaveDecline(ctx, decline, decline.At.Add(-d.keep)); err != nil {
		return fmt.Errorf("remember the decline: %w", err)
	}
	return nil
}

// Remembered returns the decline of an action that still counts; nil: none does.
func (d *Declines) Remembered(ctx context.Context, space, action string) (*Decline, error) {
	if d.off() {
		return nil, nil
	}
	last, ok, err := d.store.DeclineOf(ctx, space, action)
	if err != nil {
		return nil, fmt.Errorf("look up declines: %w", err)
	}
	if !ok || d.clock.Now().Sub(last.At) >= d.keep {
		return nil, nil
	}
	return &last, nil
}

// Forget removes the decline of an action that a person has approved since.
func (d *Declines) Forget(ctx context.Context, space, action string) error {
	if d.off() {
		return nil
	}
	if err := d.store.RemoveDecline(ctx, space, action); err != nil {
		return fmt.Errorf("forget the decline: %w", err)
	}
	return nil
}
