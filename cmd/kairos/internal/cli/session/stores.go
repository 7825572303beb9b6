package session

import (
	"strings"

	"github.com/spf13/cobra"
)

// stores are the commands that store something in the database: they may update the
// schema of one that an earlier version of the program made. All others only read.
var stores = map[string]bool{
	"serve": true,
	"mint":  true, "update": true, "delete": true, "restore": true, "import": true,
	"run": true, "begin": true, "next": true, "attest": true, "call": true,
	"allow": true, "grants revoke": true,
	"runs resume": true, "runs decide": true, "runs cancel": true, "runs abandon": true, "runs redact": true, "runs prune": true,
	"index rebuild": true,
}

// Stores reports whether the command stores something in the database.
func Stores(cmd *cobra.Command) bool {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return stores[name]
}
