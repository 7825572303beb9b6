package driverhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
)

// DescribeFile runs one binary with --describe, as DescribeAll does, and
// returns what a lock says of it on this platform.
func DescribeFile(ctx context.Context, path string, c Confinement) (e LockedEntry, err error) {
	full, err := filepath.Abs(path) // a bare name would be looked up in PATH
	if err != nil {
		return LockedEntry{}, fmt.Errorf("describe %s: %w", path, err)
	}
	h := newTrial(c, slog.New(slog.DiscardHandler))
	defer func() { err = errors.Join(err, h.Close()) }()
	return h.describeBinary(ctx, full)
}

// SumFile is the sha256 of a file in hexadecimal, as a lock has it.
func SumFile(path string) (sum string, err error) {
	file, err := openRegular(path)
	if err != nil {
		return "", err
	}
	b := &binary{path: path, file: file}
	defer func() { err = errors.Join(err, b.close()) }()
	_, err = b.hash()
	return b.sum, err
}

// VerifyFile holds the binary of a locked driver against the lock, byte for
// byte, and starts nothing. The error names both sums and the fix.
func VerifyFile(dir string, e LockedEntry) error {
	e.hashed = hashedFile{} // every byte is read, whatever was seen before
	b, err := verifyBinary(filepath.Join(dir, e.File), e, false)
	if err != nil {
		return fmt.Errorf("driver %s: %w", e.Name, err)
	}
	return b.close()
}
