package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeKey writes a file with a secret that only its owner reads, unless
// another process was first. The file survives a power loss: what is made with a key
// outlives the process.
func MakeKey(path string, content []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the folder of the key file: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*.key") // mode 0600
	if err != nil {
		return fmt.Errorf("make the key file: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the key file: %w", err)
	}
	// A link fails where a file is already there, so two processes agree on one key.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the key file: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a folder survive a power loss. Some file systems cannot
// sync a folder; they do not need it.
func syncDir(path string) error {
	dir, err := os.Open(path) //nolint:gosec // of the operator
	if err != nil {
		return err
	}
	if err := dir.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return errors.Join(err, dir.Close())
	}
	return dir.Close()
}
