//go:build linux

// Package disk is a file system for tests that loses power: then only what was
// synced, names included, and any part of the rest is left. Its syncs fail and its
// room ends on request. It is one folder without subfolders, kept in memory and
// mounted by FUSE.
package disk

import (
	"fmt"
	"maps"
	"os"
	"sync"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Disk is a mounted file system. It is safe for concurrent use. The process that
// mounted it must neither open files in it nor start processes with it as working
// directory: both can wait for themselves.
type Disk struct {
	dir string // where it is mounted

	mu     sync.Mutex       // guards the fields below
	names  map[string]*file // what programs see
	kept   map[string]*file // what survives a loss of power
	inodes uint64
	faults Faults
	off    bool // it has no power
	syncs  int
	server *fuse.Server
}

// Missing says why disks cannot be mounted; "": they can.
func Missing() string {
	if os.Geteuid() != 0 {
		return "only root can mount a file system"
	}
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		return fmt.Sprintf("FUSE cannot be used: %v", err)
	} else if err := f.Close(); err != nil {
		return err.Error()
	}
	return ""
}

// Mount mounts an empty disk at a folder, which is made.
func Mount(dir string) (*Disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d := &Disk{dir: dir, names: map[string]*file{}, kept: map[string]*file{}}
	return d, d.mount()
}

func (d *Disk) mount() error {
	server, err := fs.Mount(d.dir, &root{disk: d}, &fs.Options{
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), //nolint:gosec // numbers of the system
		MountOptions: fuse.MountOptions{
			FsName: "kairos-disk", DirectMountStrict: true, ExplicitDataCacheControl: true, DisableXAttrs: true,
		},
	})
	if err != nil {
		return fmt.Errorf("mount a disk at %s: %w", d.dir, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.server = server
	return nil
}

// Unmount ends it. No process may use it any more.
func (d *Disk) Unmount() error {
	d.mu.Lock()
	server := d.server
	d.mu.Unlock()
	return server.Unmount()
}

// Set sets what is wrong with the disk.
func (d *Disk) Set(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = f
}

// Syncs is how many syncs of files there were.
func (d *Disk) Syncs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// Used is how many bytes all files together have.
func (d *Disk) Used() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used()
}

// CutPower ends all reads and writes at once: every call fails from now on.
func (d *Disk) CutPower() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
}

// Restart mounts the disk after a loss of power, without faults. Some decides what
// is left of each change that was not synced. No process may use the disk any more.
func (d *Disk) Restart(some func() bool) error {
	if err := d.Unmount(); err != nil {
		return fmt.Errorf("unmount the disk at %s: %w", d.dir, err)
	}
	d.mu.Lock()
	d.names = survivors(d.names, d.kept, some)
	d.kept = maps.Clone(d.names)
	d.faults, d.off = Faults{}, false
	d.mu.Unlock()
	return d.mount()
}
