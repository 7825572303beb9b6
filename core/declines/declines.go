// Package declines remembers what people declined, beyond the run in which they did.
// An action is what would be done, whatever protocol and run ask for it.
package declines

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/run"
)

// Decline is a person's decision not to do something.
type Decline struct {
	// Principal and Space are those of the run in which it was declined.
	Principal string `json:"principal"`
	Space     string `json:"space"`
	Action    Action `json:"parts"`
	// Key is the same for the same action; set by Remember.
	Key   string    `json:"key"`
	Run   run.ID    `json:"run"`
	Step  int       `json:"step"` // 1-based
	Label string    `json:"label"`
	Title string    `json:"title"`
	Via   string    `json:"via"` // the driver that asked
	At    time.Time `json:"at"`
}

// Store keeps declines. Its methods are called concurrently.
type Store interface {
	// SaveDecline keeps the decline in place of an earlier one with the same
	// principal, space and key, and removes all from before a time.
	SaveDecline(ctx context.Context, d Decline, before time.Time) error
	// DeclinesOf lists those of the principal and those in the space, the latest first.
	DeclinesOf(ctx context.Context, principal, space string) ([]Decline, error)
	// RemoveDecline removes the decline with that principal, space and key, if it is kept.
	RemoveDecline(ctx context.Context, d Decline) error
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

func (d *Declines) off() bool { return d.store == nil || d.keep <= 0 }

// Remember keeps a decline that was made now.
func (d *Declines) Remember(ctx context.Context, decline Decline) (err error) {
	if d.off() {
		return nil
	}
	if decline.Key, err = decline.Action.Key(); err != nil {
		return err
	}
	decline.At = d.clock.Now().UTC()
	if err := d.store.SaveDecline(ctx, decline, decline.At.Add(-d.keep)); err != nil {
		return fmt.Errorf("remember the decline: %w", err)
	}
	return nil
}

// Remembered returns the latest decline of the action that still counts, by the
// principal or in the space, or nil.
func (d *Declines) Remembered(ctx context.Context, principal, space string, a Action) (*Decline, error) {
	all, err := d.counting(ctx, principal, space)
	for i := range all {
		if all[i].Action.Same(a) {
			return &all[i], err
		}
	}
	return nil, err
}

// Forget removes the declines of what a person has approved since. A decline of more
// than that stays.
func (d *Declines) Forget(ctx context.Context, principal, space string, approved Action) error {
	all, err := d.counting(ctx, principal, space)
	for _, decline := range all {
		if err == nil && approved.Includes(decline.Action) {
			err = d.store.RemoveDecline(ctx, decline)
		}
	}
	if err != nil {
		return fmt.Errorf("forget the decline: %w", err)
	}
	return nil
}

// Counting lists the declines that count of a run, and those of an action, by the principal or in
// the space, the latest first. A nil action: only those of the run.
func (d *Declines) Counting(ctx context.Context, principal, space string, id run.ID, a Action) ([]Decline, error) {
	all, err := d.counting(ctx, principal, space)
	return slices.DeleteFunc(all, func(decline Decline) bool { return decline.Run != id && (a == nil || !decline.Action.Same(a)) }), err
}

// TakeBack removes declines.
func (d *Declines) TakeBack(ctx context.Context, taken []Decline) error {
	for _, decline := range taken {
		if err := d.store.RemoveDecline(ctx, decline); err != nil {
			return fmt.Errorf("take a decline back: %w", err)
		}
	}
	return nil
}

func (d *Declines) counting(ctx context.Context, principal, space string) ([]Decline, error) {
	if d.off() {
		return nil, nil
	}
	all, err := d.store.DeclinesOf(ctx, principal, space)
	if err != nil {
		return nil, fmt.Errorf("look up declines: %w", err)
	}
	now := d.clock.Now()
	return slices.DeleteFunc(all, func(decline Decline) bool { return now.Sub(decline.At) >= d.keep }), nil
}
