package config

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/statement"
)

// SigningKey reads the key that signs statements, and makes one where there is none,
// unless replicas share it.
func (c Config) SigningKey() (statement.Key, error) {
	path := c.Signing.KeyFile
	text, err := files.ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) && c.Replica.Address == "" {
		if err := files.MakeKey(path, statement.NewKey().Encode()); err != nil {
			return statement.Key{}, err
		}
		text, err = files.ReadPrivate(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return statement.Key{}, fmt.Errorf("key file %s does not exist; replicas share one: make it once with `openssl genpkey -algorithm ed25519` and copy it to each of them", path)
	case err != nil:
		return statement.Key{}, fmt.Errorf("read the key that signs statements: %w", err)
	}
	key, err := statement.ParseKey(text)
	if err != nil {
		return key, fmt.Errorf("key file %s: %w; restore it, or move it away to have a new one made, which others do not know yet", path, err)
	}
	return key, nil
}

// CheckSigningKey reports a key that cannot be used. A missing key is not an error: it is made when first needed.
func (c Config) CheckSigningKey() (detail string, err error) {
	path := c.Signing.KeyFile
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && c.Replica.Address == "" {
		return path + ", made when first needed", nil
	}
	_, err = c.SigningKey()
	return path, err
}

// StateKeys reads the keys that open requestState, of which the first one seals it, and
// makes one where there is none: a restarted server must be able to open what the last
// one sealed. The key of a replica is not made: it is one that all of them share.
func (c Config) StateKeys() ([][32]byte, error) {
	path := c.MCP.StateKeyFile
	b, err := files.Read(path)
	if errors.Is(err, fs.ErrNotExist) && c.Replica.Address == "" {
		var key [32]byte
		_, _ = rand.Read(key[:]) // never fails
		if err := files.MakeKey(path, []byte(hex.EncodeToString(key[:])+"\n")); err != nil {
			return nil, err
		}
		b, err = files.Read(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("key file %s does not exist; replicas share one: make it once with `openssl rand -hex 32` and copy it to each of them", path)
	case err != nil:
		return nil, fmt.Errorf("read the key that seals questions to clients: %w", err)
	}
	return parseKeys(path, string(b))
}

// parseKeys reads a file with one key in each line.
func parseKeys(path, text string) ([][32]byte, error) {
	lines := strings.Fields(text)
	keys := make([][32]byte, len(lines))
	for i, line := range lines {
		raw, err := hex.DecodeString(line)
		if err != nil || len(raw) != len(keys[i]) {
			return nil, fmt.Errorf("key file %s must hold 64 hex digits in each line; delete it to have a new one made", path)
		}
		copy(keys[i][:], raw)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("key file %s is empty; delete it to have a new key made", path)
	}
	return keys, nil
}
