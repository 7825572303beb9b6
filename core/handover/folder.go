package handover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// temporary is the name under which the next file is written, by the process that
// holds the lock.
const temporary = "." + Name + ".tmp"

// lockWait is how long to wait for another process that holds the lock.
const lockWait = 2 * time.Second

// folder is an opened and locked folder. No link in it leads out of it.
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

// close also releases the lock.
func (f *folder) close() error { return errors.Join(f.self.Close(), f.root.Close()) }

// read returns the file, or nothing if there is none. It fails for anything but a
// plain file of ours, because writing would destroy it.
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
		return nil, File{}, nil // an emptied file may be replaced
	}
	if file, err = Parse(content); err != nil {
		return nil, File{}, fmt.Errorf("%s was not written by KAIROS, move it away: %w", Name, err)
	}
	return content, file, nil
}

var errNotPlain = errors.New(Name + " is not a plain file; move it away")

// content reads the file. If a pipe has replaced it since Lstat, opening it does
// not wait for a writer.
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

// write replaces the file atomically, or removes it if there are no blocks.
func (f *folder) write(old []byte, blocks []Block) error {
	content := encode(blocks)
	switch {
	case len(blocks) == 0:
		err := f.root.Remove(Name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		f.sync()
		return err
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
	f.sync()
	return nil
}

// sync makes the new name durable where the file system can. Otherwise a power cut
// may bring the old file back, which is also valid.
func (f *folder) sync() { _ = f.self.Sync() }

// readIn reads the file of a folder without locking it.
func readIn(dir string) (file File, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return File{}, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	_, file, err = (&folder{root: root}).read()
	return file, err
}

// CheckFolder returns the reason why the file cannot be written in the folder, or
// nil. It changes nothing.
func CheckFolder(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		// The first write creates it.
		return mayWrite(existing(dir))
	}
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	}
	if err := mayWrite(dir); err != nil {
		return fmt.Errorf("%s cannot be written: %w", dir, err)
	}
	_, err = readIn(dir)
	return err
}

// existing returns the nearest folder above dir that exists.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
