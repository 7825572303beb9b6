package library

import (
	"cmp"
	"strings"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Values that a success and a failure of a step add to its quality bonus.
const (
	solvedBonus = 1
	failedBonus = -0.2
)

// RateEvents rates the steps that a change of a run of the protocol solved, or failed at.
func RateEvents(l *Library, chain protocol.Chain, events []run.Event) {
	for _, ev := range events {
		outcome, bonus := OutcomeSuccess, float64(solvedBonus)
		switch ev.Kind {
		case run.Accepted:
		case run.Rejected:
			outcome, bonus = OutcomeFailure, failedBonus
		default:
			continue
		}
		if i := ev.Step - 1; i >= 0 && i < len(chain.Steps) {
			l.Rate(StepRating{
				Space: chain.Space, Step: chain.Steps[i], Outcome: outcome, Bonus: bonus,
				Rater: "kairos_next", Context: plain.Clip(chain.Title, 200),
			})
		}
	}
}

// maxAttested bounds what one attestation can add to a rating beside the base: its
// caller chooses the number.
const maxAttested = 5

// RateAttested rates the step that an attestation names, for want of one the
// first. Only a verified run is a success.
func RateAttested(l *Library, chain protocol.Chain, in api.AttestRequest, verified bool) {
	outcome, added := OutcomeFailure, BaseBonus(in.Outcome)+min(max(in.QualityBonus, -maxAttested), maxAttested)
	switch {
	case in.Outcome == "success" && verified:
		outcome = OutcomeSuccess
	case in.Outcome == "success":
		outcome, added = OutcomePartial, 0
	}
	step := chain.Steps[0]
	for _, s := range chain.Steps {
		if strings.EqualFold(protocol.URI(s.UUID), in.URI) {
			step = s
		}
	}
	l.Rate(StepRating{
		Space: chain.Space, Step: step, Outcome: outcome, Bonus: added, Rater: cmp.Or(in.ModelID, "kairos-attest"),
		Context: plain.Clip(in.Message, 500), Agent: in.ModelID, Attest: true,
	})
}

// BaseBonus is the rating by an outcome that clients of the earlier server know.
func BaseBonus(outcome string) float64 {
	if outcome == "success" {
		return 5
	}
	return -0.2
}
