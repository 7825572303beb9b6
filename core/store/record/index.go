package record

import "github.com/kairos-mcp/kairos/core/fault"

// OtherIndex is the error of a server beside one of another version, which has made the
// search index again.
func OtherIndex(database string) *fault.Error {
	return fault.New(fault.StoreFailed, "database %s: another version of this program has made its search index", database).
		WithRemedy("the operator has to replace this server by that version; runs continue meanwhile, but protocols are not searched, stored or deleted here")
}
