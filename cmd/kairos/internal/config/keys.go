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

// SigningKey reads the key that signs statements, and makes one where there is none.
func (c Config) SigningKey() (statement.Key, error) {
	path := c.Signing.KeyFile
	text, err := files.ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := files.MakeKey(path, statement.NewKey().Encode()); err != nil {
			return statement.Key{}, err
		}
		text, err = files.ReadPrivate(path)
	}
	if err != nil {
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
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return path + ", made when first needed", nil
	}
	_, err = c.SigningKey()
	return path, err
}

// StateKey reads the key that seals requestState, and makes one where there is
// none: a restarted server must be able to open what the last one sealed.
func (c Config) StateKey() (key [32]byte, err error) {
	path := c.MCP.StateKeyFile
	b, err := files.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		_, _ = rand.Read(key[:]) // never fails
		if err := files.MakeKey(path, []byte(hex.EncodeToString(key[:])+"\n")); err != nil {
			return key, err
		}
		b, err = files.Read(path)
	}
	if err != nil {
		return key, fmt.Errorf("read the key that seals questions to clients: %w", err)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(raw) != len(key) {
		return key, fmt.Errorf("key file %s must hold 64 hex digits; delete it to have a new one made", path)
	}
	copy(key[:], raw)
	return key, nil
}
