package record

import "github.com/kairos-mcp/kairos/core/fault"

// OlderSchema is the error of a program that only reads, for a database that an earlier
// version of the program made.
func OlderSchema(database string, have, needed int) *fault.Error {
	return fault.New(fault.StoreFailed, "database %s: its schema is version %d, this program needs version %d, and commands that only read do not update it",
		database, have, needed)
}
