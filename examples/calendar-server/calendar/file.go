package calendar

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// File is a Book on disk. Several processes may use one path at a time: a lock
// file beside it makes each View and Change see a whole Book and lose no change.
type File struct{ Path string }

// View calls f with the Book as it is now.
func (s File) View(f func(Book) error) error {
	return s.locked(func() error {
		b, err := s.read()
		if err != nil {
			return err
		}
		return f(b)
	})
}

// Change calls f with the Book and stores what f made of it, unless f fails.
func (s File) Change(f func(*Book) error) error {
	return s.locked(func() error {
		b, err := s.read()
		if err != nil {
			return err
		}
		if err := f(&b); err != nil {
			return err
		}
		return s.write(b)
	})
}

func (s File) locked(f func() error) (err error) {
	lock, err := os.OpenFile(s.Path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock calendar: %w", err)
	}
	// Closing the file gives the lock back, also when the process dies.
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock calendar %s: %w", s.Path, err)
	}
	return f()
}

// read returns the stored Book; a file that does not exist yet is a new calendar.
func (s File) read() (Book, error) {
	data, err := os.ReadFile(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return Seed(), nil
	}
	if err != nil {
		return Book{}, fmt.Errorf("read calendar: %w", err)
	}
	var b Book
	if err := json.Unmarshal(data, &b); err != nil {
		return Book{}, fmt.Errorf("read calendar %s: %w", s.Path, err)
	}
	return b, nil
}

// write replaces the file in one step, so that a crash leaves the old or the new Book.
func (s File) write(b Book) (err error) {
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("encode calendar: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(s.Path), filepath.Base(s.Path)+".*")
	if err != nil {
		return fmt.Errorf("write calendar: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, werr := tmp.Write(append(data, '\n'))
	if err := errors.Join(werr, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write calendar: %w", err)
	}
	return os.Rename(tmp.Name(), s.Path)
}
