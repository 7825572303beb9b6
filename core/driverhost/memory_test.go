package driverhost_test

import (
	"context"
	"encoding/json"
	"io"
	"syscall"
	"testing"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// counts asks a driver how many calls have reached its process.
func counts(t *testing.T, h challenges, name string, req driver.AdvanceRequest) string {
	t.Helper()
	c, _ := h.Challenge(name)
	req.Challenge = json.RawMessage(`{"do":"count"}`)
	res, err := c.Advance(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return string(res.Accepted.Proof)
}

func TestAPureDriverIsAskedTheSameOnce(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	first := driver.AdvanceRequest{Step: driver.Step{Index: 1}}
	other := driver.AdvanceRequest{Step: driver.Step{Index: 2}}
	answered := driver.AdvanceRequest{Step: driver.Step{Index: 1}, Answers: []driver.Answer{{InputID: "evidence", Value: json.RawMessage(`1`), Provenance: driver.AgentReported}}}
	for _, tc := range []struct {
		claim, name string
		req         driver.AdvanceRequest
		want        string
	}{
		{"asked first", "pure", first, "1"},
		{"the same again", "pure", first, "1"},
		{"another step", "pure", other, "2"},
		{"the first is still known", "pure", first, "1"},
		{"with answers", "pure", answered, "3"},
		{"with the same answers", "pure", answered, "4"},
		{"a driver that reads", "alpha", first, "1"},
		{"a driver that reads, again", "alpha", first, "2"},
	} {
		if got := counts(t, h, tc.name, tc.req); got != tc.want {
			t.Errorf("%s: the process counts %s calls, want %s", tc.claim, got, tc.want)
		}
	}
	if s, _ := h.StatusOf("pure"); s.Calls-s.Remembered != 4 {
		t.Errorf("%d calls, %d of them from memory: want 4 that reached the process", s.Calls, s.Remembered)
	}
}

func TestWhatIsRememberedEndsWithTheProcess(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	pid := pidOf(t, h, "pure")
	counts(t, h, "pure", driver.AdvanceRequest{})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process answers", func() bool { return pidOf(t, h, "pure") != pid })
}

// The engine writes into what it gets.
func TestEveryCallerGetsACopyOfItsOwn(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	c, _ := h.Challenge("pure")
	ask := func() driver.AdvanceResult {
		res, err := c.Advance(context.Background(), driver.AdvanceRequest{Challenge: json.RawMessage(`{"do":"config"}`)})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	want := string(ask().Accepted.Proof)
	for range 2 {
		res := ask()
		if got := string(res.Accepted.Proof); got != want {
			t.Fatalf("the proof is %s, the first caller got %s", got, want)
		}
		res.Accepted.Proof[0] = '!'
	}
}
