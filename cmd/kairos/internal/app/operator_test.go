package app

import (
	"context"
	"errors"
	"testing"

	"github.com/kairos-mcp/kairos/core/access"
)

func TestADiagnosisWaitsForTheOneBeforeIt(t *testing.T) {
	o := operator{turn: make(chan struct{}, 1)}
	o.turn <- struct{}{} // another one is made
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.Diagnose(ctx, access.Caller{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Diagnose = %v, want it to wait until its caller leaves", err)
	}
}
