package app

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

// adminSocket is where this process is to listen, or "".
func adminSocket(c config.Config) string {
	switch s := c.Admin.Socket; s {
	case "":
		return socket.DefaultSocket()
	case config.AdminOff:
		return ""
	default:
		return files.Absolute(socket.In(s))[0]
	}
}

// AdminPlaces are the folders and sockets where servers of this configuration may listen.
func AdminPlaces(c config.Config) []string {
	places := socket.DefaultFolders()
	if c.Admin.Socket != "" && c.Admin.Socket != config.AdminOff {
		places = append(places, filepath.Clean(c.Admin.Socket))
	}
	return places
}

// machine is what the operator of this machine sees of the process and changes;
// config names the configuration file.
func machine(a *App, config string) operations.Machine {
	info := operations.Info{
		PID: os.Getpid(), Version: a.Version, StartedAt: time.Now(), DriversDir: files.Absolute(a.Config.Drivers.Dir)[0],
		Database: databaseOf(a.Config), Config: config, Watch: *a.Config.Drivers.Watch,
	}
	return operations.Machine{Drivers: a.host, Setup: a.setup, Log: a.logged, Info: func() operations.Info {
		now := info
		now.HTTP = a.mainPort.address()
		return now
	}}
}

// asOperator says who the operator of this machine calls as.
func asOperator(a *App) func(operations.Operation) access.Caller {
	return func(o operations.Operation) access.Caller {
		if o.OfRuns {
			return a.RunCaller()
		}
		return a.Caller()
	}
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
