package director

import (
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/runs"
)

// useCase is the engine with the setup that one use case holds from its start to
// its end, so that drivers and tree never change in the middle of a call.
type useCase struct {
	e     *Engine
	setup drivers.Setup
	claim *runs.Claim
	// refused is how the submission failed that an earlier attempt of the use case has
	// counted and stored before a driver acted; no code: none has.
	refused *plan.Failure
}

// hold takes the present setup for one use case, which calls release when it
// ends. Use cases do not call each other, else one call could hold two setups.
func (e *Engine) hold() (u useCase, release func()) {
	s, end := e.parts.Setups.Hold()
	u = useCase{e: e, setup: s, claim: e.parts.Runs.Claim(), refused: new(plan.Failure)}
	return u, func() {
		u.claim.Release()
		end()
	}
}

// use makes a use case with the present setup, again if another writer of the run was first.
func use[T any](e *Engine, do func(useCase) (T, error)) (T, error) {
	u, release := e.hold()
	defer release()
	return runs.Again(func() (T, error) { return do(u) })
}
