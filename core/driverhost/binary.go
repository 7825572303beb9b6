package driverhost

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

const (
	describeTimeout = 10 * time.Second
	describeMax     = 1 << 20 // bytes of output
)

// binary is an open driver binary. The hashed bytes are the ones that run, because the
// process is started from the open file, not from the path: replacing the file in
// between has no effect. Writing into the file would have one, so only those who may
// install drivers may write to the folder.
type binary struct {
	path string
	file *os.File
	sum  string
}

// openRegular opens a file for reading. It refuses at once what is not a
// regular file: opening a named pipe would wait for a writer.
func openRegular(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// openBinary opens the executable file at path, which is not hashed yet.
func openBinary(path string) (*binary, error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().Perm()&0o111 == 0 {
		err = fmt.Errorf("%s is not executable", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &binary{path: path, file: file}, nil
}

// hash sets the sum and returns the entry for the hash cache.
func (b *binary) hash() (hashedFile, error) {
	began := time.Now()
	before, known := identityOf(b.file)
	hash := sha256.New()
	// Not through the file's own offset: somebody else may read it meanwhile.
	if _, err := io.Copy(hash, io.NewSectionReader(b.file, 0, math.MaxInt64)); err != nil {
		return hashedFile{}, fmt.Errorf("read %s: %w", b.path, err)
	}
	b.sum = hex.EncodeToString(hash.Sum(nil))
	if !known {
		return hashedFile{}, nil
	}
	return recordHash(b.file, before, began, b.sum), nil
}

func (b *binary) close() error { return b.file.Close() }

// again duplicates the open file; the copy is closed separately.
func (b *binary) again() (*binary, error) {
	fd, err := unix.FcntlInt(b.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s once more: %w", b.path, err)
	}
	return &binary{path: b.path, file: os.NewFile(uintptr(fd), b.path), sum: b.sum}, nil
}

// verifyBinary opens the binary of a locked driver and compares its sum; in
// dev mode any bytes are accepted. The error names path, both sums and the fix.
func verifyBinary(path string, e LockedEntry, dev bool) (*binary, error) {
	const fix = "run `make build`, or `kairos driver lock` if the change is wanted"
	want, ok := e.SHA256[Platform()]
	if !ok && !dev {
		return nil, fmt.Errorf("%s is not locked for %s; %s", path, Platform(), fix)
	}
	if !dev {
		if err := checkBinaryPermissions(path); err != nil {
			return nil, err
		}
	}
	b, err := openBinary(path)
	if err != nil {
		return nil, fmt.Errorf("its binary %s (sha256 %s in the lock) cannot be used: %w; %s", path, want, err, fix)
	}
	if e.hashed.matches(b.file, want) {
		b.sum = want
		return b, nil
	}
	if _, err := b.hash(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.sum != want && !dev {
		err := fmt.Errorf("the binary %s is not the locked one: its sha256 is %s, the lock says %s; %s", path, b.sum, want, fix)
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// describeBinary runs one binary with --describe.
func (h *Host) describeBinary(ctx context.Context, path string) (e LockedEntry, err error) {
	b, err := openBinary(path)
	if err != nil {
		return LockedEntry{}, fmt.Errorf("describe %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, b.close()) }()
	before, _ := identityOf(b.file)
	hashed, err := b.hash()
	if err != nil {
		return LockedEntry{}, fmt.Errorf("describe: %w", err)
	}
	d, err := h.describe(ctx, b)
	if err == nil {
		err = b.unchanged(before, hashed)
	}
	if err != nil {
		return LockedEntry{}, fmt.Errorf("describe %s: %w", path, err)
	}
	e = LockedEntry{
		Name: d.Name, Version: d.Version, File: filepath.Base(path),
		SHA256: map[string]string{Platform(): b.sum}, Descriptor: d, hashed: hashed,
	}
	return e, e.compactSchemas()
}

// unchanged returns an error if the file has changed since it was hashed: then the sum
// may not be that of the executed bytes.
func (b *binary) unchanged(before identity, hashed hashedFile) error {
	after, _ := identityOf(b.file)
	if after == before && hashed.matches(b.file, b.sum) {
		return nil
	}
	sum := b.sum
	if _, err := b.hash(); err != nil {
		return err
	}
	if after != before || b.sum != sum { // the sum alone would miss a file that was changed back
		return errors.New("it was changed while it described itself, so what ran may not be what would be locked: " +
			"find out what writes to it, or run the command again")
	}
	return nil
}

// describe runs the binary with --describe, isolated as a driver is and without
// a network, and returns what it prints. An error ends with its last line to stderr.
func (h *Host) describe(ctx context.Context, b *binary) (d driver.Descriptor, err error) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	last := ""
	printed, err := once(ctx, h, guardConfig{offline: true}, oneShot{
		binary: b, args: []string{driverrpc.DescribeFlag}, max: describeMax,
		say: func(line []byte, _ bool) { last = cmp.Or(cleanLine(line), last) },
	})
	if err == nil {
		d, err = decodeDescriptor(printed)
	}
	if err != nil && last != "" {
		err = fmt.Errorf("%w: %s", err, last)
	}
	return d, err
}

// decodeDescriptor passes over keys that it does not know, so that a driver of a
// later version of the contract can be locked.
func decodeDescriptor(printed []byte) (driver.Descriptor, error) {
	var d driver.Descriptor
	if len(bytes.TrimSpace(printed)) == 0 {
		return d, errors.New("it prints no descriptor")
	}
	if err := json.Unmarshal(printed, &d); err != nil {
		return driver.Descriptor{}, fmt.Errorf("its descriptor is not readable: %w", err)
	}
	if err := driverrpc.CheckDescriptor(d); err != nil {
		return driver.Descriptor{}, fmt.Errorf("its descriptor is unsound: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return d, nil
}
