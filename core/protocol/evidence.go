package protocol

import (
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// EvidenceFrom says who must vouch for a step's evidence.
type EvidenceFrom string

// The values of EvidenceFrom.
const (
	// FromAnyone: any evidence counts that the step's driver accepts. The default.
	FromAnyone EvidenceFrom = "anyone"
	// FromPerson: a person answered, or the server observed it.
	FromPerson EvidenceFrom = "person"
	// FromServer: the server observed it.
	FromServer EvidenceFrom = "server"
)

// counting are the provenances that count where evidence is not taken from anyone.
var counting = map[EvidenceFrom][]driver.Provenance{
	FromPerson: {driver.ClientAttested, driver.ServerObserved},
	FromServer: {driver.ServerObserved},
}

// Provenances lists those that count. If it is nil all of them do.
func (f EvidenceFrom) Provenances() []driver.Provenance { return slices.Clone(counting[f]) }

// Counts reports whether evidence with the provenance counts.
func (f EvidenceFrom) Counts(p driver.Provenance) bool {
	only := counting[f]
	return only == nil || slices.Contains(only, p)
}

// problem says why the value is not allowed, or "" if it is.
func (f EvidenceFrom) problem() string {
	if f == FromAnyone || counting[f] != nil {
		return ""
	}
	return fmt.Sprintf("evidence %.80q must be %q, %q or %q", string(f), FromAnyone, FromPerson, FromServer)
}
