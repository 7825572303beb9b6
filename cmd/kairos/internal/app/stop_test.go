package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAServerStopsInTimeWhateverStillWorks(t *testing.T) {
	for name, tc := range map[string]struct {
		takes time.Duration // to end after the signal
		want  error
	}{
		"a job that ends":        {time.Second, nil},
		"a job that never ends":  {24 * time.Hour, errStillWorking},
		"a call that takes long": {11 * time.Second, errStillWorking},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, signal := context.WithCancel(t.Context())
				var w working
				stopping, done := make(chan time.Duration, 1), make(chan error, 1)
				go func() {
					done <- together(ctx, func() { stopping <- 10 * time.Second }, func(ctx context.Context) error {
						return w.during("drivers", func() error {
							<-ctx.Done()
							time.Sleep(tc.takes)
							return nil
						})
					})
				}()
				time.Sleep(time.Hour) // a server takes its time as long as it serves
				began := time.Now()
				signal()
				err := inTime(done, stopping, &w)
				if !errors.Is(err, tc.want) || time.Since(began) > 10*time.Second {
					t.Errorf("stopping took %s: %v, want %v within 10 s", time.Since(began), err, tc.want)
				}
				if err != nil && !strings.HasSuffix(err.Error(), "(still working: drivers)") {
					t.Errorf("the error is %q, want what still works", err)
				}
				time.Sleep(tc.takes) // for the bubble, which ends with its goroutines
			})
		})
	}
}
