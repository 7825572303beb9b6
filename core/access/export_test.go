package access

import (
	"maps"
	"slices"
)

// UseCases lists the use cases of the table by name.
func UseCases() []string { return slices.Sorted(maps.Keys(needs)) }
