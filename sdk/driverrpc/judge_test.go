package driverrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// judge is a driver for processes of its own: the challenge {"do": ...} says
// how it behaves.
type judge struct{ word string }

func judgeDescriptor() driver.Descriptor {
	return driver.Descriptor{
		Name: "judge", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"judge"},
		Effect: driver.EffectReads, ConfigSchema: json.RawMessage(`{"type":"object"}`), Transport: driver.TransportExec,
	}
}

func (j *judge) Configure(_ context.Context, config json.RawMessage, dryRun bool) ([]driver.Diagnostic, error) {
	var c struct{ Word string }
	if len(config) > 0 {
		if json.Unmarshal(config, &c) != nil {
			return []driver.Diagnostic{driver.Problem("/word", "must be text"), driver.Warning("", "and was odd")}, nil //nolint:nilerr // a finding is the answer
		}
	}
	if !dryRun {
		j.word = c.Word
	}
	return nil, nil
}

func (j *judge) CheckHealth(context.Context) error {
	if j.word == "sick" {
		return errors.New("the word is sick")
	}
	return nil
}

func (j *judge) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{}, nil
}

func (j *judge) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	var c struct{ Do string }
	if err := json.Unmarshal(req.Challenge, &c); err != nil {
		return driver.Reject("BAD", err.Error()), nil
	}
	switch c.Do {
	case "panic":
		panic("on purpose")
	case "fail":
		return driver.AdvanceResult{}, errors.New("disk on fire\nand the house")
	case "nothing":
		return driver.AdvanceResult{}, nil
	case "mumble":
		return driver.Reject("not a code", "no"), nil
	case "print":
		fmt.Println("noise")
	case "log":
		slog.WarnContext(ctx, "plain")
		slog.Default().With("a", 1).WithGroup("g").With("b", 2).WarnContext(ctx, "grouped", "c", 3)
		slog.Warn("without a context")
	}
	proof, err := json.Marshal(map[string]string{"word": j.word, "trace": driver.TraceOf(ctx)})
	return driver.Observe(proof, nil), err
}
