package quality_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/library/quality"
)

// BenchmarkAssess measures a step of 1 KB.
func BenchmarkAssess(b *testing.B) {
	text := "## Rotate the signing keys\n\nCreate the new key first, because the gateway must always have one that is valid. " +
		"Never delete the old key before every replica has loaded the new one:\n\n```sh\nkeyctl create --name gateway-2 --bits 4096\n" +
		"keyctl list --format table | grep gateway\n```\n\n1. Wait 15 min until all replicas report the new fingerprint.\n" +
		"2. Remove `gateway-1` from the list of trusted keys.\n3. Look at the dashboard for errors of the clients.\n\n" +
		"If a client still presents a token of the old key, roll back: put the key back to the list, write down which client it was " +
		"and ask its owner to update. The address of the list is 10.0.0.12, the owner is ops@example.org.\n\n" +
		"Afterwards write the date of the rotation to the logbook of the team, with the fingerprint of the new key and the name of " +
		"the person who has approved it, so that the next audit finds it without asking around in the office.\n"
	for b.Loop() {
		quality.Assess(text)
	}
}
