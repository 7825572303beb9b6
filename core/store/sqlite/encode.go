package sqlite

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/store/record"
)

func encode(v any) (string, error) { return record.JSON(v) }

// list encodes values for json_each.
func list[T string | int64 | [2]string](values []T) string {
	document, err := json.Marshal(values)
	if err != nil || values == nil {
		return "[]" // strings and integers always encode
	}
	return string(document)
}
