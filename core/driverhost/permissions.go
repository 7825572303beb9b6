package driverhost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links are followed from a name to a file.
const maxLinks = 40

// CheckPermissions reports who else could exchange a driver: it is an error if
// the folder, the lock in it or a driver's binary can be written by the group
// or by everybody, or belongs to somebody who is neither root nor the user of
// this process. Of a symbolic link the target and the target's folder count.
// The error names every such path, its mode and the command that fixes it. The
// folders above are not checked. A missing file is not an error.
func CheckPermissions(dir string) error {
	paths, err := binariesIn(dir)
	if err != nil {
		return fmt.Errorf("check the permissions of %s: %w", dir, err)
	}
	c := &ownership{user: os.Geteuid(), looked: map[string]bool{}}
	c.folder(dir)
	for _, path := range append(paths, filepath.Join(dir, LockName)) {
		c.file(path)
	}
	return c.verdict()
}

// checkBinaryPermissions is CheckPermissions for one binary and its folder.
func checkBinaryPermissions(path string) error {
	c := &ownership{user: os.Geteuid(), looked: map[string]bool{}}
	c.folder(filepath.Dir(path))
	c.file(path)
	return c.verdict()
}

// ownership collects the paths that others could write.
type ownership struct {
	user   int
	looked map[string]bool
	errs   []error
}

func (c *ownership) verdict() error {
	if len(c.errs) == 0 {
		return nil
	}
	return fmt.Errorf("somebody else could put another program in the place of a driver: %w", errors.Join(c.errs...))
}

// file follows the links of a name and checks the file and each folder on the way.
func (c *ownership) file(path string) {
	for range maxLinks {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			c.errs = append(c.errs, err)
			return
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			c.inspect(path, info)
			return
		}
		target, err := os.Readlink(path)
		if err != nil {
			c.errs = append(c.errs, err)
			return
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		c.folder(filepath.Dir(target))
		path = target
	}
	c.errs = append(c.errs, fmt.Errorf("%s: too many symbolic links", path))
}

func (c *ownership) folder(dir string) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	info, err2 := os.Lstat(real)
	if err = errors.Join(err, err2); err != nil {
		c.errs = append(c.errs, err)
		return
	}
	c.inspect(real, info)
}

func (c *ownership) inspect(path string, info fs.FileInfo) {
	if c.looked[path] {
		return
	}
	c.looked[path] = true
	kind := "file"
	if info.IsDir() {
		kind = "folder"
	}
	if who := writers(info.Mode()); who != "" {
		c.errs = append(c.errs, fmt.Errorf("the %s %s can be written by %s (mode %04o): run `chmod go-w %s`",
			kind, path, who, info.Mode().Perm(), shellWord(path)))
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && st.Uid != 0 && int(st.Uid) != c.user {
		c.errs = append(c.errs, fmt.Errorf("the %s %s (mode %04o) belongs to user %d, who is neither root nor the user %d "+
			"of this process: run `sudo chown %d %s`", kind, path, info.Mode().Perm(), st.Uid, c.user, c.user, shellWord(path)))
	}
}

// writers names who can write besides the owner. The sticky bit of a folder does not
// help: everybody can still add a file.
func writers(mode fs.FileMode) string {
	switch mode.Perm() & 0o022 {
	case 0o022:
		return "its group and everybody"
	case 0o020:
		return "its group"
	case 0o002:
		return "everybody"
	default:
		return ""
	}
}

// shellWord quotes a path for a command that a person may copy.
func shellWord(path string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+@%"
	if path != "" && path[0] != '-' && strings.Trim(path, plain) == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// binariesIn lists the files of a folder that are named like drivers. The name of the folder
// may have any characters, also those of a pattern. A folder that does not exist has none.
func binariesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), BinaryPrefix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}
