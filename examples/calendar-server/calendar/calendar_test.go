package calendar_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/examples/calendar-server/calendar"
)

const (
	adam  = "adam@example.com"
	betty = "betty@example.com"

	stranger = "candy@example.com"
)

func at(t testing.TB, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestResolveLeavesUnknownNamesOpen(t *testing.T) {
	want := map[string]*string{"Adam": new(adam), "betty": new(betty), "Candy": nil}
	if diff := cmp.Diff(want, calendar.Seed().Resolve([]string{"Adam", "betty", "Candy"})); diff != "" {
		t.Error(diff)
	}
}

func TestFindSlot(t *testing.T) {
	for name, tc := range map[string]struct {
		now    string
		emails []string
		length time.Duration
		days   int
		want   string // start; "": there is none, or somebody is not known
	}{
		"one person, at once":             {"2026-03-02T12:00:00Z", []string{adam}, 30 * time.Minute, 1, "2026-03-02T12:00:00Z"},
		"both, after adam and betty":      {"2026-03-02T08:00:00Z", []string{adam, betty}, 30 * time.Minute, 1, "2026-03-02T11:30:00Z"},
		"too long for the gap":            {"2026-03-02T08:00:00Z", []string{adam, betty}, time.Hour, 1, "2026-03-02T14:00:00Z"},
		"starts on the quarter hour":      {"2026-03-02T14:01:00Z", []string{adam}, 30 * time.Minute, 1, "2026-03-02T14:15:00Z"},
		"after work the next day":         {"2026-03-02T16:45:00Z", []string{adam, betty}, 30 * time.Minute, 2, "2026-03-03T12:00:00Z"},
		"not on a weekend":                {"2026-03-07T08:00:00Z", []string{betty}, 30 * time.Minute, 3, "2026-03-09T09:00:00Z"},
		"not beyond the days":             {"2026-03-02T16:45:00Z", []string{adam, betty}, 30 * time.Minute, 1, ""},
		"no day is long enough":           {"2026-03-02T08:00:00Z", []string{adam}, 9 * time.Hour, 14, ""},
		"nobody":                          {"2026-03-02T08:00:00Z", nil, time.Hour, 14, ""},
		"a stranger":                      {"2026-03-02T08:00:00Z", []string{adam, stranger}, time.Hour, 14, ""},
		"another zone is the same moment": {"2026-03-02T13:00:00+01:00", []string{adam}, 30 * time.Minute, 1, "2026-03-02T12:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := calendar.Seed().FindSlot(at(t, tc.now), tc.emails, tc.length, tc.days)
			if tc.want == "" {
				known := len(tc.emails) > 0 && !slices.Contains(tc.emails, stranger)
				if err == nil || errors.Is(err, calendar.ErrNoSlot) != known {
					t.Fatalf("FindSlot = %v, %v, want ErrNoSlot: %t", got, err, known)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			start := at(t, tc.want)
			want := calendar.Slot{Start: start, End: start.Add(tc.length), Participants: tc.emails}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAdd(t *testing.T) {
	good := calendar.Event{
		ID: "1", Title: "Review", Participants: []string{adam, betty},
		Start: at(t, "2026-03-02T14:00:00Z"), End: at(t, "2026-03-02T14:30:00Z"),
	}
	change := func(f func(*calendar.Event)) calendar.Event {
		e := good
		f(&e)
		return e
	}
	for name, tc := range map[string]struct {
		event calendar.Event
		busy  bool
		ok    bool
	}{
		"free":            {good, false, true},
		"weekly busy":     {change(func(e *calendar.Event) { e.Start = at(t, "2026-03-02T13:45:00Z") }), true, false},
		"over night":      {change(func(e *calendar.Event) { e.End = at(t, "2026-03-03T09:30:00Z") }), true, false},
		"ends before":     {change(func(e *calendar.Event) { e.End = e.Start }), false, false},
		"no title":        {change(func(e *calendar.Event) { e.Title = " " }), false, false},
		"stranger":        {change(func(e *calendar.Event) { e.Participants = []string{"x@example.com"} }), false, false},
		"no participants": {change(func(e *calendar.Event) { e.Participants = nil }), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := calendar.Seed()
			err := b.Add(tc.event)
			if (err == nil) != tc.ok || errors.Is(err, calendar.ErrBusy) != tc.busy {
				t.Errorf("Add = %v, want ok %v, busy %v", err, tc.ok, tc.busy)
			}
			if got := len(b.WithTitle("")); (got == 1) != tc.ok {
				t.Errorf("Add left %d events, want %v", got, tc.ok)
			}
		})
	}
	b := calendar.Seed()
	if err := errors.Join(b.Add(good), b.Add(change(func(e *calendar.Event) { e.Participants = []string{"dora@example.com"} }))); err != nil {
		t.Fatal(err)
	}
	if err := b.Add(good); !errors.Is(err, calendar.ErrBusy) {
		t.Errorf("Add twice = %v, want ErrBusy", err)
	}
}

// With any bookings, a slot that is found can be booked, and nothing earlier could.
func TestFoundSlotsAreFreeAndFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := calendar.Seed()
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 14*24*60).Draw(t, "minute")) * time.Minute)
		emails := rapid.SampledFrom([][]string{{adam}, {betty}, {adam, betty}}).Draw(t, "emails")
		length := time.Duration(rapid.IntRange(1, 16).Draw(t, "quarters")) * 15 * time.Minute
		var last time.Time
		for i := range rapid.IntRange(1, 8).Draw(t, "events") {
			slot, err := b.FindSlot(now, emails, length, 28)
			if errors.Is(err, calendar.ErrNoSlot) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if slot.Start.Before(now) || slot.Start.Before(last) || slot.End.Sub(slot.Start) != length {
				t.Fatalf("slot %v after %v (now %v) with length %v", slot, last, now, length)
			}
			if slot.End.Format("15:04") > "17:00" || slot.Start.Format("15:04") < "09:00" {
				t.Fatalf("slot %v is outside the working hours", slot)
			}
			last = slot.End
			if err := b.Add(calendar.Event{ID: fmt.Sprint(i), Title: "x", Participants: emails, Start: slot.Start, End: slot.End}); err != nil {
				t.Fatalf("a found slot cannot be booked: %v", err)
			}
		}
	})
}

func TestFileLosesNoChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calendar.json")
	const writers = 20
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		wg.Go(func() {
			errs[i] = calendar.File{Path: path}.Change(func(b *calendar.Book) error {
				slot, err := b.FindSlot(time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), []string{adam}, 15*time.Minute, 28)
				if err != nil {
					return err
				}
				return b.Add(calendar.Event{ID: fmt.Sprint(i), Title: "x", Participants: slot.Participants, Start: slot.Start, End: slot.End})
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	err := calendar.File{Path: path}.View(func(b calendar.Book) error {
		var ids []string
		for _, e := range b.WithTitle("x") {
			ids = append(ids, e.ID)
		}
		slices.Sort(ids)
		if ids = slices.Compact(ids); len(ids) != writers {
			t.Errorf("%d of %d events are left", len(ids), writers)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFileKeepsTheOldBookWhenAChangeFails(t *testing.T) {
	file := calendar.File{Path: filepath.Join(t.TempDir(), "calendar.json")}
	if err := file.Change(func(b *calendar.Book) error { b.People = b.People[:1]; return nil }); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := file.Change(func(b *calendar.Book) error { b.People = nil; return broken }); !errors.Is(err, broken) {
		t.Fatalf("Change = %v, want the error of the change", err)
	}
	err := file.View(func(b calendar.Book) error {
		if len(b.People) != 1 {
			t.Errorf("%d people are left, want 1", len(b.People))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFileNamesWhatItCannotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calendar.json")
	if err := os.WriteFile(path, []byte(`{"hours":{"from":"9 o'clock"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	err := calendar.File{Path: path}.View(func(calendar.Book) error { return nil })
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("View = %v, want an error that names %s", err, path)
	}
}
