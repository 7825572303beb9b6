package sessions_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/clock/clocktest"
	"github.com/kairos-mcp/kairos/core/sessions"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const week = 7 * 24 * time.Hour

func ids(key byte, edit ...func(*sessions.Config)) sessions.IDs {
	c := sessions.Config{Keys: func() ([][32]byte, error) { return [][32]byte{{key}}, nil }, Clock: clock.System(), Lifetime: week}
	for _, e := range edit {
		e(&c)
	}
	return sessions.New(c)
}

func needing(pointers ...string) func(*sessions.Config) {
	return func(c *sessions.Config) { c.Capabilities = func() []string { return pointers } }
}

func replica(id string) func(*sessions.Config) { return func(c *sessions.Config) { c.Replica = id } }

func mustNew(t testing.TB, i sessions.IDs, principal string, c driver.Client) string {
	t.Helper()
	id, _, err := i.New(principal, c)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	return id
}

func TestAnIDSaysWhatContinuingItsSessionNeeds(t *testing.T) {
	c := driver.Client{
		Name: "claude-code", Version: "2.1.332", Era: "2025-11-25", ElicitationForm: true, Roots: true,
		Capabilities: json.RawMessage(`{"elicitation":{"form":{}},"roots":{"listChanged":true},"experimental":{"acme":{"confirm":true,"other":{}},"a/b":{}},"tasks":{}}`),
	}
	i := ids(1, replica("ABCDEFGHIJ"), needing("/experimental/acme/confirm", "/experimental/a~1b", "/experimental/nobody", "/roots"))
	id, made, err := i.New("ada", c)
	if err != nil || !strings.HasPrefix(id, "ABCDEFGHIJ.") {
		t.Fatalf("New = %q, %v, want the replica in front", id, err)
	}
	got, err := ids(1).Open(id, "ada") // another process
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	want := c
	want.Capabilities = json.RawMessage(`{"elicitation":{"form":{}},"experimental":{"a/b":{},"acme":{"confirm":{}}},"roots":{}}`)
	if diff := cmp.Diff(want, got.Client); diff != "" {
		t.Errorf("Open (-want +got):\n%s", diff)
	}
	if got.Key != made.Key || got.Expires.Unix() != made.Expires.Unix() {
		t.Errorf("Open = %+v, New said %+v", got, made)
	}
	for _, pointer := range []string{"/elicitation/form", "/elicitation", "/roots", "/experimental/acme/confirm", "/experimental/a~1b"} {
		if !got.Client.Declares(pointer) {
			t.Errorf("the client does not declare %s any more", pointer)
		}
	}
	for _, pointer := range []string{"/sampling", "/elicitation/url", "/tasks", "/experimental/acme/other", "/experimental/nobody"} {
		if got.Client.Declares(pointer) {
			t.Errorf("the client declares %s, which ids do not keep", pointer)
		}
	}
	if other := mustNew(t, i, "ada", c); other == id || sessions.Key(other) == made.Key {
		t.Error("two sessions of one client have the same id")
	}
}

func TestIDsAreShortWhateverClientsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(-1, -1, 1000)
		names := rapid.SliceOfN(rapid.StringMatching(`[a-z/~]{1,60}`), 0, 20).Draw(t, "capabilities")
		declared, pointers := map[string]any{}, []string{}
		for _, name := range names {
			declared[name] = true
			pointers = append(pointers, "/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
		}
		document, err := json.Marshal(declared)
		if err != nil {
			t.Fatal(err)
		}
		c := driver.Client{Name: text.Draw(t, "name"), Version: text.Draw(t, "version"), Era: text.Draw(t, "era"), Capabilities: document}
		principal := text.Draw(t, "principal")
		i := ids(1, replica("ABCDEFGHIJ"), needing(pointers...))
		id, _, err := i.New(principal, c)
		if err != nil || len(id) > sessions.MaxID {
			t.Fatalf("New = %d bytes, %v, want at most %d", len(id), err, sessions.MaxID)
		}
		got, err := i.Open(id, principal)
		if err != nil {
			t.Fatalf("Open = %v", err)
		}
		if !strings.HasPrefix(strings.ToValidUTF8(c.Name, ""), got.Client.Name) {
			t.Errorf("the name became %q", got.Client.Name)
		}
		for _, pointer := range pointers {
			if got.Client.Declares(pointer) && !c.Declares(pointer) {
				t.Errorf("the client declares %s, which it did not", pointer)
			}
		}
	})
}

func TestAnIDIsOfItsPrincipalItsKeyAndItsTime(t *testing.T) {
	machine := clocktest.New(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	now := clock.New(machine)
	timed := func(c *sessions.Config) { c.Clock = now }
	mine := ids(1, timed)
	id := mustNew(t, mine, "ada", driver.Client{})
	for name, open := range map[string]func() error{
		"another principal": func() error { _, err := mine.Open(id, "bob"); return err },
		"nobody":            func() error { _, err := mine.Open(id, ""); return err },
		"another key":       func() error { _, err := ids(2, timed).Open(id, "ada"); return err },
		"a changed id":      func() error { _, err := mine.Open(id[:len(id)-2]+"zz", "ada"); return err },
		"a long id":         func() error { _, err := mine.Open(id+"."+strings.Repeat("A", sessions.MaxID), "ada"); return err },
		"no id":             func() error { _, err := mine.Open("", "ada"); return err },
	} {
		if err := open(); !errors.Is(err, sessions.ErrUnknown) {
			t.Errorf("Open for %s = %v, want ErrUnknown", name, err)
		}
	}
	machine.Pass(week - time.Minute)
	if _, err := mine.Open(id, "ada"); err != nil {
		t.Errorf("Open a minute before the end = %v", err)
	}
	machine.Pass(time.Minute)
	if _, err := mine.Open(id, "ada"); !errors.Is(err, sessions.ErrUnknown) {
		t.Errorf("Open after a week = %v, want ErrUnknown", err)
	}
}

// Another mark in front leads to another replica and is the same session, so that ending it
// ends it under every mark.
func TestTheMarkInFrontDoesNotNameTheSession(t *testing.T) {
	i := ids(1, replica("AAAAAAAAAA"))
	id := mustNew(t, i, "ada", driver.Client{})
	other := "BBBBBBBBBB" + strings.TrimPrefix(id, "AAAAAAAAAA")
	s, err := i.Open(other, "ada")
	if err != nil || s.Key != sessions.Key(id) {
		t.Errorf("Open(%s) = %+v, %v, want the key %s", other, s, err, sessions.Key(id))
	}
}

func TestEndedSessionsAreForgottenWhenTheyExpire(t *testing.T) {
	var m sessions.Memory
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for hour := range 3 {
		at := now.Add(time.Duration(hour) * time.Hour)
		if err := m.EndSession(t.Context(), fmt.Sprint(hour), at, at.Add(90*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]bool{"0": false, "1": true, "2": true, "3": false} {
		if got, err := m.SessionEnded(t.Context(), key); err != nil || got != want {
			t.Errorf("SessionEnded(%s) = %t, %v, want %t", key, got, err, want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	i := ids(1)
	f.Add("", "ada")
	f.Add(mustNew(f, i, "ada", driver.Client{Name: "claude-code"}), "ada")
	f.Fuzz(func(t *testing.T, id, principal string) {
		if _, err := i.Open(id, principal); err != nil && !errors.Is(err, sessions.ErrUnknown) {
			t.Errorf("Open(%q) = %v", id, err)
		}
	})
}
