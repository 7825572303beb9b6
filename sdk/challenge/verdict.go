package challenge

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Verdict is what a judge decides: one of Accept, Observe, Reject, Decline,
// Unavailable, Later, Pending, Unknown, NotDone and Fail. The zero Verdict is
// not a verdict and fails the call.
type Verdict struct {
	result driver.AdvanceResult
	output any
	err    error
}

// Accept means that the evidence satisfies the demand. Later steps see output,
// which is encoded as JSON and of the type of Options.Output, or if it is nil the
// evidence itself. The proof that
// is recorded holds demand and evidence.
func Accept(output any) Verdict {
	return Verdict{result: driver.Accept(nil, nil), output: output}
}

// Observe is Accept by a judge that looked at the world itself instead of
// taking the evidence's word, so that the proof counts as server-observed. The
// Effect of the type has to say that it looks.
func Observe(output any) Verdict {
	return Verdict{result: driver.Observe(nil, nil), output: output}
}

// Reject means that the evidence does not satisfy the demand. The code is in
// capitals; the message tells the agent what to do better when it tries again.
func Reject(code, message string) Verdict {
	return Verdict{result: driver.Reject(code, message)}
}

// Decline means that a person declined.
func Decline(reason string) Verdict { return Verdict{result: driver.Decline(reason)} }

// Unavailable means that nothing can be judged now.
func Unavailable(reason string) Verdict { return Verdict{result: driver.CannotAdvance(reason)} }

// Later means that somebody was asked, or something is running: the judge is
// called again with the same demand, evidence and idempotency key (see
// RequestOf) after that time.
func Later(reason string, retryAfter time.Duration) Verdict {
	return Verdict{result: driver.AdvanceLater(reason, retryAfter)}
}

// Pending is Later with progress and a message for people.
func Pending(p driver.Pending) Verdict {
	return Verdict{result: driver.AdvanceResult{Pending: &p}}
}

// Unknown means that a judge with effects cannot tell whether its call acted.
// It is not called again for this attempt until a person has decided.
func Unknown(reason string) Verdict { return Verdict{result: driver.AdvanceUnknown(reason)} }

// NotDone answers a request with Recover: no call with this idempotency key
// acted, and none will any more.
func NotDone(reason string) Verdict { return Verdict{result: driver.AdvanceNotDone(reason)} }

// Fail means that the driver itself failed, which is not a verdict on the evidence.
// The host tries again.
func Fail(err error) Verdict {
	if err == nil {
		err = errors.New("failed without saying why")
	}
	return Verdict{err: err}
}

// advance is the verdict as the host takes it.
func (v Verdict) advance(proof, output json.RawMessage) (driver.AdvanceResult, error) {
	if v.err != nil {
		return driver.AdvanceResult{}, v.err
	}
	res := v.result
	switch {
	case res.Accepted != nil:
		accepted := *res.Accepted
		accepted.Proof, accepted.Output = proof, output
		res.Accepted = &accepted
	case res.Rejected == nil && res.Declined == nil && res.Unavailable == nil &&
		res.Pending == nil && res.Unknown == nil && res.NotDone == nil:
		return driver.AdvanceResult{}, errors.New("the judge gave no verdict")
	}
	return res, nil
}
