package sqlite

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/store/pack"
)

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

// list encodes a slice for json_each.
func list(slice any) string {
	document, err := json.Marshal(slice)
	if err != nil || string(document) == "null" {
		return "[]" // strings and integers always encode
	}
	return string(document)
}
