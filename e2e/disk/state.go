//go:build linux

package disk

import (
	"bytes"
	"maps"
	"slices"
	"syscall"
)

// blockSize is the size of what a disk writes as a whole or not at all.
const blockSize = 4096

// file is a file with what programs see, and what survives a loss of power.
type file struct {
	ino   uint64
	mode  uint32
	data  []byte       // what programs see
	kept  []byte       // what is on the disk
	dirty map[int]bool // blocks that were changed since the last sync
}

// touch marks the blocks of a part as changed.
func (f *file) touch(from, to int) {
	for block := from / blockSize; block*blockSize < to; block++ {
		f.dirty[block] = true
	}
}

func (f *file) write(data []byte, at int) {
	if end := at + len(data); end > len(f.data) {
		f.touch(len(f.data), end)
		f.data = resized(f.data, end)
	}
	copy(f.data[at:], data)
	f.touch(at, at+len(data))
}

func (f *file) resize(size int) {
	f.touch(min(size, len(f.data)), max(size, len(f.data), len(f.kept)))
	f.data = resized(f.data, size)
}

// sync puts everything on the disk.
func (f *file) sync() {
	f.kept = resized(f.kept, len(f.data))
	f.keep(func() bool { return true })
}

// forget is what Linux does after a failed sync: it takes the changed blocks for
// written, so that a later sync succeeds without them.
func (f *file) forget() { clear(f.dirty) }

// keep puts some of the changed blocks on the disk.
func (f *file) keep(some func() bool) {
	for _, block := range slices.Sorted(maps.Keys(f.dirty)) {
		from, to := block*blockSize, min((block+1)*blockSize, len(f.data))
		if from >= to || !some() {
			continue
		}
		if to > len(f.kept) {
			f.kept = resized(f.kept, to)
		}
		copy(f.kept[from:to], f.data[from:to])
	}
	clear(f.dirty)
}

// survivor is the file after a loss of power.
func (f *file) survivor(some func() bool) *file {
	if some() {
		f.kept = resized(f.kept, len(f.data))
	}
	f.keep(some)
	return &file{ino: f.ino, mode: f.mode, data: bytes.Clone(f.kept), kept: f.kept, dirty: map[int]bool{}}
}

// resized is the content cut off, or extended with zeros.
func resized(content []byte, size int) []byte {
	if size <= len(content) {
		return content[:size:size]
	}
	return append(content, make([]byte, size-len(content))...)
}

// survivors are the files after a loss of power: what was not synced is lost, except
// for some of it.
func survivors(names, kept map[string]*file, some func() bool) map[string]*file {
	made, left := map[*file]*file{}, map[string]*file{}
	all := maps.Clone(kept)
	maps.Copy(all, names)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := kept[name]
		if names[name] != f && some() {
			f = names[name]
		}
		if f == nil {
			continue
		}
		if made[f] == nil {
			made[f] = f.survivor(some)
		}
		left[name] = made[f]
	}
	return left
}

// Faults are what is wrong with the disk.
type Faults struct {
	// FailSyncs is how many syncs of files fail with an I/O error; -1: all.
	FailSyncs int
	// Room is how many bytes all files together may have. 0 means any number.
	Room     int
	ReadOnly bool
}

// mayWrite reports why nothing can be changed.
func (d *Disk) mayWrite() syscall.Errno {
	switch {
	case d.off:
		return syscall.EIO
	case d.faults.ReadOnly:
		return syscall.EROFS
	}
	return 0
}

// mayGrow reports why the files cannot have more bytes.
func (d *Disk) mayGrow(by int) syscall.Errno {
	if err := d.mayWrite(); err != 0 || d.faults.Room == 0 || by <= 0 {
		return err
	}
	if d.used()+by > d.faults.Room {
		return syscall.ENOSPC
	}
	return 0
}

func (d *Disk) used() (bytes int) {
	for _, f := range d.names {
		bytes += len(f.data)
	}
	return bytes
}

// syncFile is a sync of a file.
func (d *Disk) syncFile(f *file) syscall.Errno {
	if d.off {
		return syscall.EIO
	}
	d.syncs++
	if d.faults.FailSyncs != 0 {
		if d.faults.FailSyncs > 0 {
			d.faults.FailSyncs--
		}
		f.forget()
		return syscall.EIO
	}
	f.sync()
	return 0
}
