package driverhost_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestTimeoutsWithoutAServedCallOpenTheBreaker(t *testing.T) {
	impatient := driverhost.Config{Call: 50 * time.Millisecond}
	script, _ := scripted(t, impatient)
	for name, tc := range map[string]struct {
		h    hosted
		hang func(h hosted) error
	}{
		"alpha": {newHost(t, impatient, io.Discard), func(h hosted) error {
			_, err := obey(t.Context(), t, h, "alpha", "hold", "file", filepath.Join(t.TempDir(), "began"), "text", "/nonexistent")
			return err
		}},
		"script": {script, func(h hosted) error {
			_, err := tell(t.Context(), h, "hang")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				if err := tc.hang(tc.h); err == nil || !strings.Contains(err.Error(), "within 50ms") {
					t.Errorf("error = %v, want a timeout", err)
				}
			}
			if s, _ := tc.h.StatusOf(name); s.Breaker.State != "open" {
				t.Errorf("breaker %s after 5 timeouts, want open", s.Breaker.State)
			}
			if err := tc.hang(tc.h); err == nil || !strings.Contains(err.Error(), "left alone") {
				t.Errorf("error = %v, want one that says that it is left alone", err)
			}
		})
	}
}

func TestAServedCallBetweenTimeoutsKeepsTheBreakerClosed(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	for range 6 {
		timeOut(t, h)
		interpret(t, h, 0, "pid", "", "")
	}
	if s, _ := h.StatusOf("capable"); s.Breaker.State != "closed" {
		t.Errorf("breaker %s, want closed", s.Breaker.State)
	}
}

// interpret gives an order to the capability driver, with a time of its own.
func interpret(t *testing.T, h hosted, within time.Duration, do, file, text string) string {
	t.Helper()
	value, err := tryInterpret(t, h, within, do, file, text)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func tryInterpret(t *testing.T, h hosted, within time.Duration, do, file, text string) (string, error) {
	c, ok := h.Capability("capable", within)
	if !ok {
		return "", errors.New("there is no capability driver")
	}
	raw, err := json.Marshal(map[string]string{"do": do, "file": file, "text": text})
	if err != nil {
		return "", err
	}
	res, err := c.Interpret(t.Context(), driver.InterpretRequest{Raw: raw})
	if err != nil {
		return "", err
	}
	return string(res.Answer.Value), nil
}

// timeOut makes a call that never returns.
func timeOut(t *testing.T, h hosted) {
	t.Helper()
	_, err := tryInterpret(t, h, 50*time.Millisecond, "hold", filepath.Join(t.TempDir(), "began"), "/nonexistent")
	if err == nil || !strings.Contains(err.Error(), "within 50ms") {
		t.Fatalf("error = %v, want a timeout", err)
	}
}

func TestAProcessWithALeakedCallIsReplacedWithoutHarmToItsOtherCalls(t *testing.T) {
	h := newHost(t, driverhost.Config{}, io.Discard)
	first := interpret(t, h, 0, "pid", "", "")
	dir := t.TempDir()
	began, end := filepath.Join(dir, "began"), filepath.Join(dir, "end")
	held := make(chan string, 1)
	go func() {
		value, err := tryInterpret(t, h, 0, "hold", began, end)
		if err != nil {
			value = err.Error()
		}
		held <- value
	}()
	eventually(t, "the other call has begun", func() bool { _, err := os.Stat(began); return err == nil })

	timeOut(t, h)
	if again := interpret(t, h, 0, "pid", "", ""); again == first {
		t.Error("the process with the leaked call serves new calls")
	}
	check(t, os.WriteFile(end, nil, 0o600))
	s, _ := h.StatusOf("capable")
	// On a machine so slow that the process answered no health check it was killed,
	// and the other call made again.
	if value := <-held; value != first && s.Crashes == 0 {
		t.Errorf("the other call got %s, want %s from the process that it began in", value, first)
	}
	var pid int
	check(t, json.Unmarshal([]byte(first), &pid))
	eventually(t, "the process with the leaked call is gone", func() bool { return gone(pid) })
}
