package connect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
)

// maxDocument bounds the configuration of a client, in bytes.
const maxDocument = 4 << 20

// readDocument reads a client's file; a file that does not exist is empty.
func readDocument(path string) ([]byte, error) {
	b, err := files.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration of the client: %w", err)
	}
	if len(b) > maxDocument {
		return nil, fmt.Errorf("%s has %d bytes, more than a configuration file has", path, len(b))
	}
	return b, nil
}

// writeDocument replaces a client's file at once and keeps the one before
// beside it. It returns the path of that copy, or "" if there was no file.
func writeDocument(path string, before, after []byte, now time.Time) (backup string, err error) {
	// Behind a link, which people use to keep such files elsewhere, the link stays.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	mode := fs.FileMode(0o600) // tokens of other servers may be in it
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
		if backup, err = keep(path, before, mode, now); err != nil {
			return "", fmt.Errorf("keep a copy of %s: %w", path, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a folder of the person's own
		return "", fmt.Errorf("make the folder of the configuration: %w", err)
	}
	if err := replace(path, after, mode); err != nil {
		return "", fmt.Errorf("write the configuration of the client: %w", err)
	}
	return backup, nil
}

// keep writes a copy beside the file. It replaces nothing: an earlier copy of the
// same second stays, and a link in its place is not followed.
func keep(path string, content []byte, mode fs.FileMode, now time.Time) (backup string, err error) {
	first := path + ".before-kairos-" + now.Format("20060102-150405")
	backup = first
	f, err := os.OpenFile(backup, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	for i := 2; errors.Is(err, fs.ErrExist) && i < 100; i++ {
		backup = fmt.Sprintf("%s-%d", first, i)
		f, err = os.OpenFile(backup, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	return backup, errors.Join(err, f.Chmod(mode), f.Close())
}

func replace(path string, content []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".kairos-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // half of a file helps nobody
		}
	}()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
