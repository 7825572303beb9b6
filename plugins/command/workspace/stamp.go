package workspace

import (
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Fresh reports whether the files, their folders and the names of commits have the
// sizes and times that they had when the snapshot was taken. That is cheap and says
// little: before anything is run on it, a snapshot is taken again.
func (s Snapshot) Fresh() bool {
	now, ok := s.stampSince(time.Now().Add(time.Hour))
	return ok && s.stamp != 0 && now == s.stamp
}

// clockTick is how much later than the clock says a file may have been changed.
const clockTick = 20 * time.Millisecond

// stampSince sums up sizes and times. It is false if something was changed since then,
// or just before: the snapshot may have read the file before the change.
func (s Snapshot) stampSince(began time.Time) (uint64, bool) {
	sum := fnv.New64a()
	paths := map[string]bool{"": true}
	for _, e := range s.entries {
		for at := e.path; at != "." && !paths[at]; at = path.Dir(at) {
			paths[at] = true
		}
	}
	git := filepath.Join(s.dir, dotGit)
	info, err := os.Lstat(git)
	ok := err != nil || info.IsDir() // a linked work tree has its commits elsewhere
	add := func(name string) {
		ok = stampOf(sum, name, began.Add(-clockTick)) && ok
	}
	add(s.dir)
	for _, e := range s.entries {
		for at := e.path; paths[at]; at = path.Dir(at) {
			delete(paths, at)
			add(filepath.Join(s.dir, at))
		}
	}
	for _, name := range []string{"", "HEAD", "index", "packed-refs", "shallow", "config", "info/exclude"} {
		add(filepath.Join(git, name))
	}
	_ = filepath.WalkDir(filepath.Join(git, "refs"), func(name string, _ fs.DirEntry, err error) error {
		if err == nil {
			add(name)
		}
		return nil // without refs there is nothing to add
	})
	return sum.Sum64(), ok
}

func stampOf(sum hash.Hash, name string, latest time.Time) bool {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		fmt.Fprintf(sum, "%s -\x00", name)
		return true
	} else if err != nil {
		return false
	}
	changed := time.Unix(st.Ctim.Unix())
	fmt.Fprintf(sum, "%s %d %o %d %d\x00", name, st.Ino, st.Mode, st.Size, changed.UnixNano())
	return changed.Before(latest)
}
