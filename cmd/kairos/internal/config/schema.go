package config

import _ "embed"

// Schema describes config; a test compares the two.
//
//go:embed config.schema.json
var Schema []byte
