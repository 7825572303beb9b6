package storetest

import (
	"fmt"
	"testing"
	"time"
)

var sessionCases = map[string]func(*testing.T, Runs){
	"a session that was ended stays ended": sessionsEnd,
	"sessions are forgotten once expired":  expiredSessionsGo,
}

// endSession ends a session at an hour after the epoch; its id expires two hours later.
func endSession(t *testing.T, s Runs, key string, hour int) {
	t.Helper()
	now := epoch.Add(time.Duration(hour) * time.Hour)
	if err := s.EndSession(t.Context(), key, now, now.Add(2*time.Hour)); err != nil {
		t.Fatalf("EndSession(%s) = %v, want nil", key, err)
	}
}

func wantEnded(t *testing.T, s Runs, want map[string]bool) {
	t.Helper()
	for key, ended := range want {
		wantRead(t, fmt.Sprintf("SessionEnded(%s)", key), ended)(s.SessionEnded(t.Context(), key))
	}
}

func sessionsEnd(t *testing.T, s Runs) {
	wantEnded(t, s, map[string]bool{"a": false, "": false})
	for range 2 { // the second time it has ended already
		endSession(t, s, "a", 0)
		wantEnded(t, s, map[string]bool{"a": true, "A": false, "b": false, "": false})
	}
	wantCancelled(t, "EndSession", s.EndSession(cancelled(t), "c", epoch, epoch.Add(time.Hour)))
	wantEnded(t, s, map[string]bool{"c": false})
}

func expiredSessionsGo(t *testing.T, s Runs) {
	for hour, key := range []string{"a", "b", "c", "d"} {
		endSession(t, s, key, hour)
	}
	wantEnded(t, s, map[string]bool{"a": false, "b": true, "c": true, "d": true})
}
