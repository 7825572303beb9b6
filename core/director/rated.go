package director

import (
	"cmp"
	"strings"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Values that a success and a failure of a step add to its quality bonus.
const (
	solvedBonus = 1
	failedBonus = -0.2
)

// rateEvents rates the steps that a change of the run solved, or failed at.
func (t *turn) rateEvents(events []run.Event) {
	for _, ev := range events {
		outcome, bonus := library.OutcomeSuccess, float64(solvedBonus)
		switch ev.Kind {
		case run.Accepted:
		case run.Rejected:
			outcome, bonus = library.OutcomeFailure, failedBonus
		default:
			continue
		}
		if i := ev.Step - 1; i >= 0 && i < len(t.Chain.Steps) {
			t.e.parts.Library.Rate(library.StepRating{
				Space: t.Chain.Space, Step: t.Chain.Steps[i], Outcome: outcome, Bonus: bonus,
				Rater: "kairos_next", Context: plain.Clip(t.Chain.Title, 200),
			})
		}
	}
}

// maxAttested bounds what one attestation can add to a rating beside the base: its
// caller chooses the number.
const maxAttested = 5

// rateAttested rates the step that an attestation names, for want of one the
// first. Only a verified run is a success.
func rateAttested(u useCase, chain protocol.Chain, in api.AttestRequest, verified bool) {
	outcome, added := library.OutcomeFailure, baseBonus(in.Outcome)+min(max(in.QualityBonus, -maxAttested), maxAttested)
	switch {
	case in.Outcome == "success" && verified:
		outcome = library.OutcomeSuccess
	case in.Outcome == "success":
		outcome, added = library.OutcomePartial, 0
	}
	step := chain.Steps[0]
	for _, s := range chain.Steps {
		if strings.EqualFold(protocol.URI(s.UUID), in.URI) {
			step = s
		}
	}
	u.e.parts.Library.Rate(library.StepRating{
		Space: chain.Space, Step: step, Outcome: outcome, Bonus: added, Rater: cmp.Or(in.ModelID, "kairos-attest"),
		Context: plain.Clip(in.Message, 500), Agent: in.ModelID, Attest: true,
	})
}
