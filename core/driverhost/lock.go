package driverhost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// LockName is the usual name of the lock, beside the binaries.
const LockName = "drivers.lock"

// BinaryPrefix starts the file name of every driver binary.
const BinaryPrefix = "kairos-driver-"

const lockVersion = 1

// Lock is drivers.lock: the drivers that may start, their descriptors, and the sums of
// their binaries.
type Lock struct {
	Version int           `json:"version"`
	Drivers []LockedEntry `json:"drivers"` // by name
}

// LockedEntry is one driver of a lock.
type LockedEntry struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// File is the binary, relative to the lock's folder.
	File string `json:"file"`
	// SHA256 is the binary's sum in hexadecimal by platform, such as "linux/amd64".
	SHA256     map[string]string `json:"sha256"`
	Descriptor driver.Descriptor `json:"descriptor"`

	hashed hashedFile // of this machine, kept beside the lock
}

// Platform is the key of this machine in LockedEntry.SHA256.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// Descriptors returns the descriptors of the locked drivers, by name.
func (l Lock) Descriptors() []driver.Descriptor {
	out := make([]driver.Descriptor, len(l.Drivers))
	for i, e := range l.Drivers {
		out[i] = e.Descriptor
	}
	return out
}

// Validate returns all errors of the lock, or nil.
func (l Lock) Validate() error {
	var errs []error
	if l.Version != lockVersion {
		errs = append(errs, fmt.Errorf("version is %d, this program reads %d", l.Version, lockVersion))
	}
	for i, e := range l.Drivers {
		if err := e.validate(); err != nil {
			errs = append(errs, fmt.Errorf("driver %q: %w", e.Name, err))
		}
		if slices.ContainsFunc(l.Drivers[:i], func(o LockedEntry) bool { return o.Name == e.Name }) {
			errs = append(errs, fmt.Errorf("driver %q is there twice", e.Name))
		}
	}
	return errors.Join(errs...)
}

func (e LockedEntry) validate() error {
	if err := driverrpc.CheckDescriptor(e.Descriptor); err != nil {
		return fmt.Errorf("descriptor: %w", err)
	}
	if e.Name != e.Descriptor.Name || e.Version != e.Descriptor.Version {
		return fmt.Errorf("its descriptor is that of %s %s", e.Descriptor.Name, e.Descriptor.Version)
	}
	if !filepath.IsLocal(e.File) {
		return fmt.Errorf("file %q is not inside the lock's folder", e.File)
	}
	for platform, sum := range e.SHA256 {
		if len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" {
			return fmt.Errorf("sha256 for %s is %q, not 64 lower-case hexadecimal digits", platform, sum)
		}
	}
	return nil
}

// ReadLock reads and validates a lock. Unknown keys are errors.
func ReadLock(path string) (Lock, error) {
	b, err := readRegular(path)
	if err != nil {
		return Lock{}, fmt.Errorf("read the driver lock: %w (`make build` or `kairos driver lock` writes it)", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var l Lock
	if err := dec.Decode(&l); err != nil {
		return Lock{}, fmt.Errorf("read the driver lock %s: %w", path, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Lock{}, fmt.Errorf("read the driver lock %s: text after its end", path)
	}
	if err := l.Validate(); err != nil {
		return Lock{}, fmt.Errorf("driver lock %s: %w", path, err)
	}
	for i := range l.Drivers {
		if err := l.Drivers[i].compactSchemas(); err != nil {
			return Lock{}, fmt.Errorf("driver lock %s: %w", path, err)
		}
	}
	readHashes(path, &l)
	return l, nil
}

func readRegular(path string) (b []byte, err error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(file)
}

// compactSchemas undoes the indentation of the file, so that a descriptor is
// the same whether it comes from the lock or from the driver.
func (e *LockedEntry) compactSchemas() error {
	for name, schema := range e.Descriptor.Schemas() {
		if len(*schema) == 0 {
			continue
		}
		var b bytes.Buffer
		if err := json.Compact(&b, *schema); err != nil {
			return fmt.Errorf("driver %q: %s: %w", e.Name, name, err)
		}
		*schema = b.Bytes()
	}
	return nil
}

// WriteLock writes the lock, drivers by name, so that the same drivers give
// the same file. The file is replaced as a whole. Beside it, in a file of this
// machine, stands which binaries were hashed, so that a start can skip that.
func WriteLock(path string, l Lock) error {
	l.Version = lockVersion
	l.Drivers = slices.SortedFunc(slices.Values(l.Drivers), func(a, b LockedEntry) int { return cmp.Compare(a.Name, b.Name) })
	if err := l.Validate(); err != nil {
		return fmt.Errorf("driver lock: %w", err)
	}
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the driver lock: %w", err)
	}
	if err := writeFile(path, append(b, '\n')); err != nil {
		return fmt.Errorf("write the driver lock: %w", err)
	}
	if err := writeHashes(path, l); err != nil {
		return fmt.Errorf("write the driver lock: %w", err)
	}
	return nil
}

// writeFile replaces a file as a whole.
func writeFile(path string, content []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".drivers.lock-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// DescribeAll runs every executable kairos-driver-* in the folder with
// --describe, isolated as a driver is, without a network, in an empty
// environment and bounded in time and output, and builds the lock of this
// platform from what they print and are made of. What has such a name and is
// not a regular file is an error.
func DescribeAll(ctx context.Context, dir string, c Confinement) (l Lock, err error) {
	dir, err = filepath.Abs(dir) // a bare name would be looked up in PATH
	if err != nil {
		return Lock{}, fmt.Errorf("list drivers: %w", err)
	}
	paths, err := binariesIn(dir)
	if err != nil {
		return Lock{}, fmt.Errorf("list drivers: %w", err)
	}
	paths = slices.DeleteFunc(paths, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || info.Mode().IsRegular() && info.Mode().Perm()&0o111 == 0
	})
	if len(paths) == 0 {
		return Lock{}, fmt.Errorf("no executable %s* in %s (`make build` puts them there)", BinaryPrefix, dir)
	}
	h := newTrial(c, slog.New(slog.DiscardHandler))
	defer func() { err = errors.Join(err, h.Close()) }()
	entries := make([]LockedEntry, len(paths))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, path := range paths {
		group.Go(func() (err error) {
			entries[i], err = h.describeBinary(ctx, path)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Lock{}, err
	}
	slices.SortFunc(entries, func(a, b LockedEntry) int { return cmp.Compare(a.Name, b.Name) })
	l = Lock{Version: lockVersion, Drivers: entries}
	if err := l.Validate(); err != nil {
		return Lock{}, fmt.Errorf("drivers in %s: %w", dir, err)
	}
	return l, nil
}
