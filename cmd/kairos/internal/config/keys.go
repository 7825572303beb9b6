package config

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/statement"
)

// Keys are the keys of a server, in files of one folder.
type Keys struct {
	dir    string
	shared bool // by replicas, so that none is made here
}

// Keys are those of the configuration.
func (c Config) Keys() Keys { return Keys{c.KeysDir, c.Replica.Address != ""} }

// SigningFile is the file of the key that signs statements.
func (k Keys) SigningFile() string { return filepath.Join(k.dir, "signing.key") }

// StateFile is the file of the keys that open requestState.
func (k Keys) StateFile() string { return filepath.Join(k.dir, "state.key") }

// keyFile is a file with a key, which is made where there is none, unless replicas share it.
type keyFile struct {
	path    string
	what    string // the key
	command string // that makes one for all replicas
	read    func(path string) ([]byte, error)
	fresh   func() []byte
}

func (k Keys) read(f keyFile) ([]byte, error) {
	text, err := f.read(f.path)
	if errors.Is(err, fs.ErrNotExist) && !k.shared {
		if err := files.MakeKey(f.path, f.fresh()); err != nil {
			return nil, err
		}
		text, err = f.read(f.path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("key file %s does not exist; replicas share one: make it once with `%s` and copy it to each of them", f.path, f.command)
	case err != nil:
		return nil, fmt.Errorf("read the key that %s: %w", f.what, err)
	}
	return text, nil
}

// Signing reads the key that signs statements.
func (k Keys) Signing() (key statement.Key, err error) {
	text, err := k.read(keyFile{
		k.SigningFile(), "signs statements", "openssl genpkey -algorithm ed25519", files.ReadPrivate, func() []byte { return statement.NewKey().Encode() },
	})
	if err != nil {
		return key, err
	}
	if key, err = statement.ParseKey(text); err != nil {
		err = fmt.Errorf("key file %s: %w; restore it, or move it away to have a new one made, which others do not know yet", k.SigningFile(), err)
	}
	return key, err
}

// CheckSigning reports a key that cannot be used. A missing key is not an error: it is made when first needed.
func (k Keys) CheckSigning() (detail string, err error) {
	path := k.SigningFile()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !k.shared {
		return path + ", made when first needed", nil
	}
	_, err = k.Signing()
	return path, err
}

// State reads the keys that open requestState, of which the first one seals it: a
// restarted server must be able to open what the last one sealed.
func (k Keys) State() ([][32]byte, error) {
	text, err := k.read(keyFile{k.StateFile(), "seals questions to clients", "openssl rand -hex 32", files.Read, func() []byte {
		var key [32]byte
		_, _ = rand.Read(key[:]) // never fails
		return []byte(hex.EncodeToString(key[:]) + "\n")
	}})
	if err != nil {
		return nil, err
	}
	return parseKeys(k.StateFile(), string(text))
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
