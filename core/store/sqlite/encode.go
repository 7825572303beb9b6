package sqlite

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/store/pack"
	"github.com/kairos-mcp/kairos/core/store/record"
)

func encode(v any) (string, error) { return record.JSON(v) }

// packProtocol is the form of protocols.
func packProtocol(document []byte) []byte { return pack.Pack(pack.Protocol, document) }

// unpack decodes packed JSON.
func unpack(packed []byte, into any) error {
	document, err := pack.Unpack(packed)
	if err != nil {
		return err
	}
	return json.Unmarshal(document, into)
}

// list encodes values for json_each.
func list[T string | int64 | [2]string | [3]string](values []T) string {
	document, err := json.Marshal(values)
	if err != nil || values == nil {
		return "[]" // strings and integers always encode
	}
	return string(document)
}
