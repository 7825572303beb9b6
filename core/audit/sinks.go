package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/syslog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Sink is where lines are written. Its methods are called one after the other, but for String.
type Sink interface {
	// Write writes a line, which ends with a newline, whole or not at all.
	Write(line []byte) error
	// Close closes what the first Write opened.
	Close() error
	// String says where that is, for people.
	fmt.Stringer
}

// Stream writes to a stream that others close.
type Stream struct {
	io.Writer
	Name string
}

// Write implements Sink.
func (s Stream) Write(line []byte) error {
	_, err := s.Writer.Write(line)
	return err
}

// Close implements Sink.
func (Stream) Close() error { return nil }

// String implements Sink.
func (s Stream) String() string { return s.Name }

// Syslog writes to the syslog of this machine, as notices of the facility auth. The zero value
// connects with the first line, and again after an error.
type Syslog struct{ to *syslog.Writer }

// Write implements Sink.
func (s *Syslog) Write(line []byte) (err error) {
	if s.to == nil {
		if s.to, err = syslog.New(syslog.LOG_AUTH|syslog.LOG_NOTICE, "kairos"); err != nil {
			return err
		}
	}
	if _, err := s.to.Write(line); err != nil {
		err = errors.Join(err, s.to.Close())
		s.to = nil
		return err
	}
	return nil
}

// Close implements Sink.
func (s *Syslog) Close() error {
	if s.to == nil {
		return nil
	}
	return s.to.Close()
}

// String implements Sink.
func (*Syslog) String() string { return "syslog" }

// File writes to a file, which becomes an earlier one when it is full. Several processes of one
// account may write to it. Lines are appended, and only the account can read them.
type File struct {
	Path string
	// Size in bytes from which a file is full. Zero: none is.
	Size int64
	// Keep is how many earlier files are kept.
	Keep int
	// Sync: a line that is written outlives a loss of power.
	Sync bool

	file *os.File
}

// Write implements Sink. A line that does not fit on the disk is not there in part.
func (f *File) Write(line []byte) error {
	for range renamed {
		size, current, err := f.lock()
		if err != nil {
			return err
		}
		if !current {
			f.drop()
			continue
		}
		if f.Size > 0 && size > 0 && size+int64(len(line)) > f.Size {
			if err := f.rotate(); err != nil {
				f.drop()
				return err
			}
			f.drop()
			continue
		}
		err = f.append(line, size)
		return errors.Join(err, syscall.Flock(int(f.file.Fd()), syscall.LOCK_UN))
	}
	return errors.New("other programs rename it all the time")
}

// renamed is how often the file may be another one when a line is to be written.
const renamed = 100

// drop closes the file, and with it gives up its lock.
func (f *File) drop() {
	_ = f.file.Close() // each line was written by a call of its own, whose error was looked at
	f.file = nil
}

// lock opens the file unless it is open, and locks it. It returns its size; it is not current if
// another process has made it an earlier one.
func (f *File) lock() (size int64, current bool, err error) {
	if f.file == nil {
		if err := f.open(); err != nil {
			return 0, false, err
		}
	}
	if err := syscall.Flock(int(f.file.Fd()), syscall.LOCK_EX); err != nil {
		return 0, false, fmt.Errorf("lock it: %w", err)
	}
	own, err := f.file.Stat()
	if err != nil {
		return 0, false, err
	}
	there, err := os.Stat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	return own.Size(), os.SameFile(own, there), nil
}

// open opens the file. A pipe is refused, which would wait for its reader, and so is a file that
// others can change.
func (f *File) open() error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(f.Path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	there, err := file.Stat()
	switch {
	case err != nil:
	case there.Mode()&fs.ModeCharDevice != 0:
	case !there.Mode().IsRegular():
		err = fmt.Errorf("it is %s, not a file", there.Mode().Type())
	case there.Mode().Perm()&0o022 != 0:
		err = fmt.Errorf("other accounts can write to it (mode %04o): chmod go-w %s", there.Mode().Perm(), f.Path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file = file
	return nil
}

// append writes a line at the end of the locked file. What was written of one that did not fit is
// taken away again.
func (f *File) append(line []byte, size int64) error {
	if last := make([]byte, 1); size > 0 { // a line that was cut off, such as by a loss of power, must not take this one along
		if _, err := f.file.ReadAt(last, size-1); err != nil {
			return fmt.Errorf("read its end: %w", err)
		}
		if last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err := f.file.Write(line); err != nil {
		return errors.Join(err, f.cut(size))
	}
	if !f.Sync {
		return nil
	}
	if err := f.file.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // a device cannot
		return err
	}
	return nil
}

func (f *File) cut(size int64) error {
	if err := f.file.Truncate(size); err != nil && !errors.Is(err, syscall.EINVAL) { // a device has no size
		return fmt.Errorf("take away the part that was written: %w", err)
	}
	return nil
}

// rotate makes the locked file an earlier one, and removes those that are not kept. Other
// processes notice with their next line.
func (f *File) rotate() error {
	earlier, err := f.earlier()
	if err != nil {
		return err
	}
	for _, old := range earlier[:min(len(earlier), max(0, len(earlier)+1-f.Keep))] {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an earlier file: %w", err)
		}
	}
	if f.Keep == 0 {
		return os.Remove(f.Path)
	}
	stem, ext, err := f.parts()
	if err != nil {
		return err
	}
	return os.Rename(stem[:len(stem)-1]+ext, stem+time.Now().UTC().Format("20060102T150405.000000000Z")+ext)
}

// earlier lists the earlier files, the oldest first.
func (f *File) earlier() ([]string, error) {
	stem, ext, err := f.parts()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Dir(stem))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(stem), e.Name())
		at, ok := strings.CutPrefix(strings.TrimSuffix(path, ext), stem)
		if ok && e.Type().IsRegular() && strings.HasSuffix(path, ext) && isTime(at) {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found, nil
}

// parts are what stands around the time in the paths of earlier files, which are beside the file
// itself: Path may be a link.
func (f *File) parts() (stem, ext string, err error) {
	real, err := filepath.EvalSymlinks(f.Path)
	ext = filepath.Ext(real)
	return strings.TrimSuffix(real, ext) + "-", ext, err
}

func isTime(s string) bool {
	_, err := time.Parse("20060102T150405.000000000Z", s)
	return err == nil
}

// Close implements Sink.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// String implements Sink.
func (f *File) String() string { return f.Path }
