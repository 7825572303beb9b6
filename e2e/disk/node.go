//go:build linux

package disk

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// root is the folder.
type root struct {
	fs.Inode
	disk *Disk
}

// node is a file in it.
type node struct {
	fs.Inode
	disk *Disk
	file *file
}

var (
	_ fs.NodeLookuper       = (*root)(nil)
	_ fs.NodeCreater        = (*root)(nil)
	_ fs.NodeUnlinker       = (*root)(nil)
	_ fs.NodeRenamer        = (*root)(nil)
	_ fs.NodeLinker         = (*root)(nil)
	_ fs.NodeReaddirer      = (*root)(nil)
	_ fs.NodeOpendirHandler = (*root)(nil)
	_ fs.NodeStatfser       = (*root)(nil)
	_ fs.NodeOpener         = (*node)(nil)
	_ fs.NodeReader         = (*node)(nil)
	_ fs.NodeWriter         = (*node)(nil)
	_ fs.NodeGetattrer      = (*node)(nil)
	_ fs.NodeSetattrer      = (*node)(nil)
	_ fs.NodeFsyncer        = (*node)(nil)
	_ fs.NodeFlusher        = (*node)(nil)
)

func (r *root) inode(ctx context.Context, f *file, out *fuse.EntryOut) *fs.Inode {
	f.fill(&out.Attr)
	return r.NewInode(ctx, &node{disk: r.disk, file: f}, fs.StableAttr{Mode: syscall.S_IFREG, Ino: f.ino})
}

func (f *file) fill(out *fuse.Attr) {
	out.Ino, out.Size, out.Mode, out.Nlink = f.ino, uint64(len(f.data)), syscall.S_IFREG|f.mode, 1
	out.Blocks = (out.Size + 511) / 512
}

// Lookup implements fs.NodeLookuper.
func (r *root) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	f := r.disk.names[name]
	if f == nil {
		return nil, syscall.ENOENT
	}
	return r.inode(ctx, f, out), 0
}

// Create implements fs.NodeCreater.
func (r *root) Create(ctx context.Context, name string, _, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	d := r.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mayWrite(); err != 0 {
		return nil, nil, 0, err
	}
	f := d.names[name]
	if f == nil {
		d.inodes++
		f = &file{ino: d.inodes + 1, mode: mode & 0o777, dirty: map[int]bool{}} // 1 is the folder
		d.names[name] = f
	}
	return r.inode(ctx, f, out), nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Unlink implements fs.NodeUnlinker.
func (r *root) Unlink(_ context.Context, name string) syscall.Errno {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	if err := r.disk.mayWrite(); err != 0 {
		return err
	}
	delete(r.disk.names, name)
	return 0
}

// Rename implements fs.NodeRenamer.
func (r *root) Rename(_ context.Context, name string, _ fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	if err := r.disk.mayWrite(); err != 0 {
		return err
	}
	if flags != 0 {
		return syscall.EINVAL
	}
	r.disk.names[to] = r.disk.names[name]
	delete(r.disk.names, name)
	return 0
}

// Link implements fs.NodeLinker.
func (r *root) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	if err := r.disk.mayWrite(); err != 0 {
		return nil, err
	}
	n, ok := target.(*node)
	if !ok || r.disk.names[name] != nil {
		return nil, syscall.EEXIST
	}
	r.disk.names[name] = n.file
	return r.inode(ctx, n.file, out), 0
}

// Readdir implements fs.NodeReaddirer.
func (r *root) Readdir(context.Context) (fs.DirStream, syscall.Errno) { return r.entries(), 0 }

func (r *root) entries() fs.DirStream {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	var entries []fuse.DirEntry
	for _, name := range slices.Sorted(maps.Keys(r.disk.names)) {
		entries = append(entries, fuse.DirEntry{Name: name, Mode: syscall.S_IFREG, Ino: r.disk.names[name].ino})
	}
	return fs.NewListDirStream(entries)
}

// folder is the open folder, which can be synced.
type folder struct {
	fs.DirStream
	disk *Disk
}

// Readdirent implements fs.FileReaddirenter.
func (f folder) Readdirent(context.Context) (*fuse.DirEntry, syscall.Errno) {
	if !f.HasNext() {
		return nil, 0
	}
	entry, err := f.Next()
	return &entry, err
}

// Fsyncdir implements fs.FileFsyncdirer.
func (f folder) Fsyncdir(context.Context, uint32) syscall.Errno {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.off || f.disk.faults.FailSyncs != 0 {
		return syscall.EIO
	}
	f.disk.kept = maps.Clone(f.disk.names)
	return 0
}

// OpendirHandle implements fs.NodeOpendirHandler.
func (r *root) OpendirHandle(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return folder{r.entries(), r.disk}, 0, 0
}

// Statfs implements fs.NodeStatfser.
func (r *root) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	room := cmp.Or(r.disk.faults.Room, 1<<30)
	out.Bsize, out.Frsize, out.NameLen = blockSize, blockSize, 255
	out.Blocks = uint64(room) / blockSize                      //nolint:gosec // not negative
	out.Bfree = uint64(max(0, room-r.disk.used())) / blockSize //nolint:gosec // not negative
	out.Bavail, out.Files, out.Ffree = out.Bfree, 1<<20, 1<<20
	return 0
}

// Open implements fs.NodeOpener.
func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if flags&syscall.O_ACCMODE != syscall.O_RDONLY && n.disk.faults.ReadOnly {
		return nil, 0, syscall.EROFS
	}
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Read implements fs.NodeReader.
func (n *node) Read(_ context.Context, _ fs.FileHandle, into []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if n.disk.off {
		return nil, syscall.EIO
	}
	read := copy(into, n.file.data[min(int(at), len(n.file.data)):])
	return fuse.ReadResultData(into[:read]), 0
}

// Write implements fs.NodeWriter.
func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if err := n.disk.mayGrow(int(at) + len(data) - len(n.file.data)); err != 0 {
		return 0, err
	}
	n.file.write(data, int(at))
	return uint32(len(data)), 0 //nolint:gosec // at most MaxWrite
}

// Getattr implements fs.NodeGetattrer.
func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	n.file.fill(&out.Attr)
	return 0
}

// Setattr implements fs.NodeSetattrer.
func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if size, ok := in.GetSize(); ok {
		if err := n.disk.mayGrow(int(size) - len(n.file.data)); err != 0 { //nolint:gosec // of a test
			return err
		}
		n.file.resize(int(size)) //nolint:gosec // of a test
	}
	if mode, ok := in.GetMode(); ok {
		n.file.mode = mode & 0o777
	}
	n.file.fill(&out.Attr)
	return 0
}

// Fsync implements fs.NodeFsyncer.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	return n.disk.syncFile(n.file)
}

// Flush implements fs.NodeFlusher: closing a file syncs nothing.
func (n *node) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }
