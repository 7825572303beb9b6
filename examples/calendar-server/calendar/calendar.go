// Package calendar is a small shared calendar: people, the hours they work,
// when they are busy, and the events they take part in. It is pure; File keeps
// a Book on disk for several processes.
package calendar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Errors of a Book that a caller can act on.
var (
	// ErrNoSlot: nobody's fault, everybody is just never free together.
	ErrNoSlot = errors.New("no free slot")
	// ErrBusy: a participant is busy at that time.
	ErrBusy = errors.New("busy")
)

// grid is the raster on which meetings start.
const grid = 15 * time.Minute

// Book is everything the calendar knows. All clock times are UTC.
type Book struct {
	People []Person `json:"people"`
	Hours  Hours    `json:"hours"`
	Busy   []Busy   `json:"busy"`
	Events []Event  `json:"events"`
}

// Person is an entry of the directory.
type Person struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// Hours are the working hours, Monday to Friday.
type Hours struct {
	From Clock `json:"from"`
	To   Clock `json:"to"`
}

// Busy is a time of the week at which a person can never meet.
type Busy struct {
	Email   string `json:"email"`
	Weekday string `json:"weekday"` // English, lower case
	From    Clock  `json:"from"`
	To      Clock  `json:"to"`
}

// Event is an appointment.
type Event struct {
	ID           string    `json:"event_id"`
	Title        string    `json:"title"`
	Participants []string  `json:"participants"` // emails
	Start        time.Time `json:"start"`
	End          time.Time `json:"end"`
	// Key of the call that created it; empty: it had none.
	Key string `json:"idempotency_key,omitempty"`
}

// Slot is a time at which all participants are free.
type Slot struct {
	Start        time.Time `json:"start"`
	End          time.Time `json:"end"`
	Participants []string  `json:"participants"`
}

// Seed is the Book of a new calendar: a few people with their weekly habits.
func Seed() Book {
	return Book{
		People: []Person{
			{Name: "Adam", Email: "adam@example.com"},
			{Name: "Betty", Email: "betty@example.com"},
			{Name: "Dora", Email: "dora@example.com"},
		},
		Hours: Hours{From: clock(9, 0), To: clock(17, 0)},
		Busy: []Busy{
			{Email: "adam@example.com", Weekday: "monday", From: clock(9, 0), To: clock(11, 30)},
			{Email: "adam@example.com", Weekday: "wednesday", From: clock(13, 0), To: clock(17, 0)},
			{Email: "adam@example.com", Weekday: "friday", From: clock(12, 0), To: clock(17, 0)},
			{Email: "betty@example.com", Weekday: "monday", From: clock(12, 0), To: clock(14, 0)},
			{Email: "betty@example.com", Weekday: "tuesday", From: clock(9, 0), To: clock(12, 0)},
			{Email: "betty@example.com", Weekday: "thursday", From: clock(9, 0), To: clock(10, 0)},
			{Email: "dora@example.com", Weekday: "tuesday", From: clock(13, 0), To: clock(15, 0)},
		},
	}
}

// Resolve looks names up in the directory, ignoring case; the email of a name
// that is not in it is nil.
func (b Book) Resolve(names []string) map[string]*string {
	resolved := make(map[string]*string, len(names))
	for _, name := range names {
		resolved[name] = nil
		for _, p := range b.People {
			if strings.EqualFold(p.Name, strings.TrimSpace(name)) {
				resolved[name] = &p.Email
			}
		}
	}
	return resolved
}

// FindSlot returns the first time from now on, within so many days, at which
// every participant is free for the length: in working hours, on the quarter hour.
func (b Book) FindSlot(now time.Time, emails []string, length time.Duration, days int) (Slot, error) {
	if err := b.known(emails); err != nil {
		return Slot{}, err
	}
	now = now.UTC()
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	for day := range days {
		opens := today.AddDate(0, 0, day)
		for start := opens.Add(b.Hours.From.Duration); ; start = start.Add(grid) {
			end := start.Add(length)
			if !b.working(start, end) {
				break
			}
			if !start.Before(now) && b.busy(emails, start, end) == "" {
				return Slot{Start: start, End: end, Participants: slices.Clone(emails)}, nil
			}
		}
	}
	return Slot{}, fmt.Errorf("%w of %d minutes for %s in the next %d days",
		ErrNoSlot, int(length.Minutes()), strings.Join(emails, ", "), days)
}

// Add books an event if all its participants are known and free.
func (b *Book) Add(e Event) error {
	if err := b.known(e.Participants); err != nil {
		return err
	}
	if strings.TrimSpace(e.Title) == "" {
		return errors.New("title is empty")
	}
	if !e.End.After(e.Start) {
		return errors.New("end is not after start")
	}
	if who := b.busy(e.Participants, e.Start.UTC(), e.End.UTC()); who != "" {
		return fmt.Errorf("%s is %w from %s to %s", who, ErrBusy, e.Start.Format(time.RFC3339), e.End.Format(time.RFC3339))
	}
	b.Events = append(b.Events, e)
	return nil
}

// WithKey returns the event that a call with this key created.
func (b Book) WithKey(key string) (Event, bool) {
	for _, e := range b.Events {
		if key != "" && e.Key == key {
			return e, true
		}
	}
	return Event{}, false
}

// WithTitle returns the events with exactly that title; all for "".
func (b Book) WithTitle(title string) []Event {
	found := []Event{}
	for _, e := range b.Events {
		if title == "" || e.Title == title {
			found = append(found, e)
		}
	}
	return found
}

func (b Book) known(emails []string) error {
	if len(emails) == 0 {
		return errors.New("no participants")
	}
	for _, email := range emails {
		if !slices.ContainsFunc(b.People, func(p Person) bool { return p.Email == email }) {
			return fmt.Errorf("nobody here has the email %q", email)
		}
	}
	return nil
}

// working reports whether the time lies in the working hours of one weekday.
func (b Book) working(start, end time.Time) bool {
	if start.Weekday() == time.Saturday || start.Weekday() == time.Sunday {
		return false
	}
	midnight := time.Date(start.Year(), start.Month(), start.Day(), 0, 0, 0, 0, time.UTC)
	return !start.Before(midnight.Add(b.Hours.From.Duration)) && !end.After(midnight.Add(b.Hours.To.Duration))
}

// busy returns the first participant who is busy at some moment of the time.
func (b Book) busy(emails []string, start, end time.Time) string {
	for _, email := range emails {
		for _, e := range b.Events {
			if slices.Contains(e.Participants, email) && overlap(start, end, e.Start, e.End) {
				return email
			}
		}
		if b.weeklyBusy(email, start, end) {
			return email
		}
	}
	return ""
}

func (b Book) weeklyBusy(email string, start, end time.Time) bool {
	midnight := time.Date(start.Year(), start.Month(), start.Day(), 0, 0, 0, 0, time.UTC)
	for ; midnight.Before(end); midnight = midnight.AddDate(0, 0, 1) {
		weekday := strings.ToLower(midnight.Weekday().String())
		for _, w := range b.Busy {
			if w.Email == email && w.Weekday == weekday &&
				overlap(start, end, midnight.Add(w.From.Duration), midnight.Add(w.To.Duration)) {
				return true
			}
		}
	}
	return false
}

func overlap(start, end, otherStart, otherEnd time.Time) bool {
	return start.Before(otherEnd) && otherStart.Before(end)
}
