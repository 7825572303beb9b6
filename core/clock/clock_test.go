package clock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/clock/clocktest"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func newClock() (*clock.Clock, *clocktest.Source) {
	machine := clocktest.New(start)
	return clock.New(machine), machine
}

// A move lets time pass on the machine, sets its clock, and says what the clock shows then,
// as times after the start.
type move struct {
	pass, jump   time.Duration
	now, settled time.Duration
}

func TestTheClockFollowsTheMachine(t *testing.T) {
	const night, day, long = 8 * time.Hour, 16 * time.Hour, 1000 * time.Hour
	for name, moves := range map[string][]move{
		"time continues when the clock is set back": {{time.Minute, -5 * time.Hour, time.Minute, time.Minute}, {time.Minute, 0, 2 * time.Minute, 2 * time.Minute}},
		"a jump forward is followed at once, and settled once it has held": {
			{0, long, long, 0},
			{clock.SettleTime - time.Second, 0, long + clock.SettleTime - time.Second, clock.SettleTime - time.Second},
			{time.Second, 0, long + clock.SettleTime, long + clock.SettleTime},
		},
		"a jump that is taken back is never settled": {
			{0, long, long, 0}, {time.Hour, -long, long + time.Hour, time.Hour},
			{clock.SettleTime, 0, long + time.Hour + clock.SettleTime, time.Hour + clock.SettleTime},
			{clock.SettleTime, 0, long + time.Hour + 2*clock.SettleTime, time.Hour + 2*clock.SettleTime},
		},
		"what is common to jumps of several nights is settled": {
			{0, night, night, 0}, {day, night, night + day + night, day}, {night, 0, night + day + 2*night, night + day + night},
		},
		"small corrections are settled at once": {
			{time.Minute, time.Second, time.Minute + time.Second, time.Minute + time.Second},
			{time.Minute, time.Second, 2*time.Minute + 2*time.Second, 2*time.Minute + 2*time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, machine := newClock()
			for i, m := range moves {
				machine.Pass(m.pass)
				machine.Jump(m.jump)
				if now, settled := c.Now().Sub(start), c.Settled().Sub(start); now != m.now || settled != m.settled {
					t.Errorf("after move %d: Now = %s, Settled = %s after the start, want %s and %s", i, now, settled, m.now, m.settled)
				}
			}
		})
	}
}

func TestASetBackThatNobodySawIsNotOne(t *testing.T) {
	c, machine := newClock()
	machine.Jump(time.Hour)
	machine.Jump(-time.Hour)
	if got := c.Now(); !got.Equal(start) {
		t.Errorf("Now = %s, want %s", got, start)
	}
}

func TestNowNeverGoesBackAndNeverLags(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, machine := newClock()
		last, from := c.Now(), c.Now()
		var passed time.Duration
		for range rapid.IntRange(1, 50).Draw(t, "moments") {
			d := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "passed"))
			machine.Pass(d)
			passed += d
			machine.Jump(time.Duration(rapid.Int64Range(-int64(48*time.Hour), int64(48*time.Hour)).Draw(t, "set")))
			now, settled := c.Now(), c.Settled()
			switch {
			case now.Before(last):
				t.Fatalf("Now = %s after %s", now, last)
			case now.Before(machine.Wall()):
				t.Fatalf("Now = %s, the machine shows %s", now, machine.Wall())
			case now.Sub(from) < passed:
				t.Fatalf("Now advanced by %s while %s passed", now.Sub(from), passed)
			case settled.After(now):
				t.Fatalf("Settled = %s is after Now = %s", settled, now)
			}
			last = now
		}
	})
}

func TestIDsStayUniqueAndOrderedAfterASetBack(t *testing.T) {
	c, machine := newClock()
	var ids []string
	for _, set := range []time.Duration{0, -time.Hour, time.Hour, -48 * time.Hour} {
		machine.Jump(set)
		for range 5000 { // more than a millisecond has fractions
			ids = append(ids, c.NewID())
		}
		machine.Pass(time.Microsecond)
	}
	if !slices.IsSorted(ids) {
		t.Error("ids are not in the order in which they were made")
	}
	if n := len(slices.Compact(slices.Clone(ids))); n != len(ids) {
		t.Errorf("%d of %d ids are different", n, len(ids))
	}
}

func TestAnIDIsAUUIDOfVersion7WithItsTime(t *testing.T) {
	c, _ := newClock()
	id, err := uuid.Parse(c.NewID())
	if err != nil {
		t.Fatal(err)
	}
	if id.Version() != 7 || id.Variant() != uuid.RFC4122 {
		t.Errorf("id %s has version %d and variant %s", id, id.Version(), id.Variant())
	}
	sec, nsec := id.Time().UnixTime()
	if got := time.Unix(sec, nsec); got.Sub(start).Abs() > time.Millisecond {
		t.Errorf("id %s has the time %s, want %s", id, got, start)
	}
}

func TestEarliestIsTheLeastThatWasShown(t *testing.T) {
	for name, tc := range map[string]struct{ set, want time.Duration }{
		"not set":     {0, 0},
		"set forward": {time.Hour, 0},
		"set back":    {-time.Hour, -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			c, machine := newClock()
			since := c.Moment()
			machine.Pass(2 * time.Hour)
			least := machine.Wall().Add(tc.set - 2*time.Hour) // if it was set at the moment
			machine.Jump(tc.set)
			if got := c.Earliest(since); !got.Equal(start.Add(tc.want)) || got.After(least) && tc.set <= 0 {
				t.Errorf("Earliest = %s, want %s", got, start.Add(tc.want))
			}
		})
	}
}

func TestTheSystemsClockIsNearWhatTheMachineShows(t *testing.T) {
	before := time.Now().Round(0)
	got := clock.System().Now()
	if got.Before(before) || got.After(time.Now().Round(0)) {
		t.Errorf("Now = %s, the machine showed %s before", got, before)
	}
}
