package handover

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// temporary is where the next file is written; whoever holds the lock may use it.
const temporary = "." + Name + ".tmp"

// lockWait is how long another process may have the folder.
const lockWait = 2 * time.Second

// folder is an opened and locked folder. What is done in it stays in it,
// whatever links it holds.
type folder struct {
	root *os.Root
	self *os.File // holds the lock
}

func openFolder(ctx context.Context, dir string) (_ *folder, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	self, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	f := &folder{root: root, self: self}
	if err := f.lock(ctx); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *folder) lock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for pause := time.NewTicker(10 * time.Millisecond); ; {
		taken, err := tryLock(f.self)
		if err != nil || taken {
			pause.Stop()
			return err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return errors.New("another process holds the folder")
		}
	}
}

// close releases the lock, too.
func (f *folder) close() error { return errors.Join(f.self.Close(), f.root.Close()) }

// read returns the file as it is; empty: there is none. What is not a plain
// file of ours is refused: writing would destroy it.
func (f *folder) read() (content []byte, file File, err error) {
	info, err := f.root.Lstat(Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, File{}, nil
	case err != nil:
		return nil, File{}, err
	case !info.Mode().IsRegular():
		return nil, File{}, errNotPlain
	}
	if content, err = f.content(); err != nil {
		return nil, File{}, err
	}
	if len(content) == 0 {
		return nil, File{}, nil // somebody emptied it: nothing is lost
	}
	if file, err = Parse(content); err != nil {
		return nil, File{}, fmt.Errorf("%s is somebody else's, move it away: %w", Name, err)
	}
	return content, file, nil
}

var errNotPlain = errors.New(Name + " is not a plain file; move it away")

// content reads the file. Should it have become a pipe since it was looked at,
// opening it does not wait for somebody to write.
func (f *folder) content() ([]byte, error) {
	in, err := f.root.OpenFile(Name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	var content []byte
	now, err := in.Stat()
	switch {
	case err != nil:
	case !now.Mode().IsRegular():
		err = errNotPlain
	default:
		content, err = io.ReadAll(io.LimitReader(in, maxFile+1))
	}
	return content, errors.Join(err, in.Close())
}

// write puts the blocks in the place of the file, whole or not at all; without
// any the file goes.
func (f *folder) write(old []byte, blocks []Block) error {
	content := encode(blocks)
	switch {
	case len(blocks) == 0:
		err := f.root.Remove(Name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, f.sync())
	case bytes.Equal(old, content):
		return nil
	}
	if err := f.root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := f.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return errors.Join(err, f.root.Remove(temporary))
	}
	if err := f.root.Rename(temporary, Name); err != nil {
		return errors.Join(err, f.root.Remove(temporary))
	}
	return f.sync()
}

// sync makes the new name last. Not every file system can.
func (f *folder) sync() error {
	_ = f.self.Sync() // without it a power cut may bring the old file back, which is as good
	return nil
}

// ownFirst sorts the blocks, this server's before those that anybody can have put
// there, then the last changed ones, and drops what there is no room for.
func ownFirst(mark Mark, blocks []Block) []Block {
	slices.SortStableFunc(blocks, func(a, b Block) int {
		if own := mark.own(a); own != mark.own(b) {
			if own {
				return -1
			}
			return 1
		}
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), cmp.Compare(a.Session, b.Session))
	})
	return blocks[:min(len(blocks), maxBlocks)]
}

// readIn reads the file of a folder without its lock.
func readIn(dir string) (file File, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return File{}, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	_, file, err = (&folder{root: root}).read()
	return file, err
}

// CheckFolder says what keeps the file from being written in the folder. It
// changes nothing.
func CheckFolder(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		// The first write makes it.
		return mayWrite(existing(dir))
	}
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", dir)
	}
	if err := mayWrite(dir); err != nil {
		return fmt.Errorf("%s cannot be written: %w", dir, err)
	}
	_, err = readIn(dir)
	return err
}

// existing is the nearest folder above that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
