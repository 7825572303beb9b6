package mcp_test

import (
	"strings"
	"testing"
	"time"
)

// eachEra calls kairos_begin as a client of each era, with the progress token if
// there is one.
func eachEra(t *testing.T, token string, test func(t *testing.T, begin func(*wire) string)) {
	t.Helper()
	t.Run("legacy", func(t *testing.T) {
		test(t, func(w *wire) string {
			w.initialize(`{}`)
			params := obj{"name": "kairos_begin", "arguments": beginArgs}
			if token != "" {
				params["_meta"] = obj{"progressToken": token}
			}
			return w.request("tools/call", params)
		})
	})
	t.Run("modern", func(t *testing.T) {
		test(t, func(w *wire) string {
			meta := modernMeta(`{}`)
			if token != "" {
				meta["progressToken"] = token
			}
			return w.request("tools/call", obj{"name": "kairos_begin", "arguments": beginArgs, "_meta": meta})
		})
	})
}

func TestACallStaysOpenForADriverAndTellsItsProgress(t *testing.T) {
	eachEra(t, "p", func(t *testing.T, begin func(*wire) string) {
		d := newDirector()
		d.retries, d.retryAfter = 3, 5*time.Millisecond
		w := dial(t, config(), d)
		id := begin(w)
		for _, percent := range []string{"97 %", "98 %", "99 %"} {
			w.until("the progress of the driver", func(m msg) bool {
				text := string(m.Params)
				return m.Method == "notifications/progress" && strings.Contains(text, `"progressToken":"p"`) &&
					strings.Contains(text, "builder: Compiling. ("+percent+")")
			})
		}
		if got := w.step(id); got.ErrorCode != "" || got.RetryAfter != nil || got.Progress != nil || got.ProgressMessage != "" {
			t.Errorf("reply = %+v, want the one after the wait", got)
		}
	})
}

func TestACallThatMayWaitNoLongerSaysWhatIsWaitedFor(t *testing.T) {
	eachEra(t, "", func(t *testing.T, begin func(*wire) string) {
		d := newDirector()
		d.retries, d.retryAfter = 3, time.Hour
		cfg := config()
		cfg.PlainWait = 300 * time.Millisecond // of the call, whose work takes a part of it
		w := dial(t, cfg, d)
		got := w.step(begin(w))
		if got.ErrorCode != "WAITING_FOR_DRIVER" || got.RetryAfter == nil || *got.RetryAfter >= time.Hour.Seconds() ||
			got.Progress == nil || *got.Progress != 0.97 || got.ProgressMessage != "Compiling." {
			t.Errorf("reply = %+v, want that the rest of an hour is left, and the driver's progress", got)
		}
		for _, m := range w.kept {
			t.Errorf("without a progress token the client got %v", m)
		}
	})
}
