package run_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestPeopleReadWhoseWordItIs(t *testing.T) {
	for want, a := range map[string]run.Approval{
		"the agent":                             {Provenance: driver.AgentReported, Basis: run.BasisAgent},
		"a person (form)":                       {Provenance: driver.ClientAttested, Basis: run.BasisForm},
		"a person (page link)":                  {Provenance: driver.LinkHolder, Basis: run.BasisLink},
		"a person (login)":                      {Provenance: driver.ClientAttested, Basis: run.BasisPage, By: "ada"},
		"a person (signature)":                  {Provenance: driver.ClientAttested, Basis: "signature"},
		"a person (review, left to the client)": {ClientReview: true, Basis: run.BasisReview},
		"a person":                              {Provenance: driver.ClientAttested},
		"a model":                               {Provenance: driver.ModelGenerated},
		"the server":                            {Provenance: driver.ServerObserved},
		"rumoured":                              {Provenance: "rumoured"},
		"":                                      {},
	} {
		if got := a.Approver(); got != want {
			t.Errorf("Approver(%+v) = %q, want %q", a, got, want)
		}
	}
}
