package record

import "github.com/kairos-mcp/kairos/core/fault"

// EarlierBuild is the error for a database that a build from before version 1 of the
// schema made.
func EarlierBuild(database string) *fault.Error {
	return fault.New(fault.StoreFailed, "database %s: an earlier build of KAIROS made it, and this one cannot read it; nothing was changed", database).
		WithHint("export the protocols with that build (`kairos protocols export FOLDER`), name a new database, and import them here (`kairos import FOLDER`)")
}
