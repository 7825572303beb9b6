package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Act has a driver do once what the input asks for, outside of any run and without an
// approval: an operator tries out what a server would do. The driver is started as a
// server starts it; the status says how it is limited, and what it warns of.
func (a *App) Act(ctx context.Context, via string, in driver.Input) (value json.RawMessage, status driverhost.Status, err error) {
	setup, release := a.setup.Hold()
	defer release()
	drv, ok := setup.Drivers.Capability(via, time.Minute)
	previewer, able := drv.(driver.Previewer)
	if !ok || !able {
		return nil, status, fmt.Errorf("there is no driver %s that says what it would do", via)
	}
	planned, err := previewer.Preview(ctx, driver.PreviewRequest{Input: in, Client: a.Caller().Client})
	switch {
	case err != nil:
		return nil, status, err
	case planned.Unavailable != nil:
		return nil, status, errors.New(planned.Unavailable.Reason)
	case planned.Plan == nil:
		return nil, status, errors.New("it needs a proposal first")
	}
	req := driver.RenderRequest{Input: in, Client: a.Caller().Client, Plan: planned.Plan.Data, IdempotencyKey: rand.Text(), Attempt: 1}
	res, err := drv.Render(ctx, req)
	for req.Recover = true; err == nil && res.Pending != nil; {
		res, err = drv.Render(ctx, req)
	}
	status, _ = a.host.StatusOf(via)
	return answered(res), status, errors.Join(err, unanswered(res))
}

func answered(res driver.RenderResult) json.RawMessage {
	if res.Answer == nil {
		return nil
	}
	return res.Answer.Value
}

func unanswered(res driver.RenderResult) error {
	switch {
	case res.Unavailable != nil:
		return errors.New(res.Unavailable.Reason)
	case res.Unknown != nil:
		return errors.New(res.Unknown.Reason)
	case res.NotDone != nil:
		return errors.New(res.NotDone.Reason)
	}
	return nil
}
