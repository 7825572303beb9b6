// Package signing writes signed statements of runs.
package signing

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
)

// Write writes to standard output, or a file that nobody sees half-written.
func Write(stdout io.Writer, path string, data []byte) (err error) {
	if path == "" || path == "-" {
		p := &output.Printer{W: stdout}
		p.Verbatim(string(data))
		return p.Err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("write the statement: %s is a directory", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".statement-*") // mode 0600: it holds evidence
	if err != nil {
		var inner *fs.PathError // which names a file that nobody asked for
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return fmt.Errorf("write the statement into %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the statement: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
