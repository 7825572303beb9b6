package record

import (
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// Reduced reports that searches of a database do without its index, or nil.
func Reduced(s wordindex.State, database string) error {
	switch {
	case s.Newer():
		return fault.New(fault.StoreFailed, "this program is older than the search index of database %s: until it is upgraded, its searches do not compare the texts of steps", database).
			WithHint("upgrade it; the newer version indexes what this one stores")
	case s.Foreign():
		return fault.New(fault.StoreFailed, "the search index of database %s is older than this program: until it is restarted, its searches do not compare the texts of steps", database).
			WithHint("restart it; it makes the index again")
	}
	return nil
}
