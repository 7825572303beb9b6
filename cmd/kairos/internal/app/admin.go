package app

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/server/admin"
)

// adminSocket is where this process is to listen; empty: nowhere.
func adminSocket(c config.Config) string {
	switch s := c.Admin.Socket; s {
	case "":
		return admin.DefaultSocket()
	case config.AdminOff:
		return ""
	default:
		return files.Absolute(admin.SocketIn(s))[0]
	}
}

// AdminPlaces are the folders and sockets where servers of this configuration may listen.
func AdminPlaces(c config.Config) []string {
	places := admin.DefaultFolders()
	if c.Admin.Socket != "" && c.Admin.Socket != config.AdminOff {
		places = append(places, filepath.Clean(c.Admin.Socket))
	}
	return places
}

// operatorLabel separates this use of the state keys from any other.
const operatorLabel = "kairos operator token 1"

// sharedTokens are the tokens of operators of servers that share a database behind one
// proxy: a call reaches any of them, so a token of its own for each would be wrong at the
// others. They have the same state keys, from which the tokens are derived.
func sharedTokens(stateKeys func() ([][32]byte, error)) ([]string, error) {
	keys, err := stateKeys()
	if err != nil {
		return nil, err
	}
	tokens := make([]string, len(keys))
	for i, key := range keys {
		token, err := hkdf.Key(sha256.New, key[:], nil, operatorLabel, 16)
		if err != nil {
			return nil, err
		}
		tokens[i] = hex.EncodeToString(token)
	}
	return tokens, nil
}
