package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// old is where the root of before is while the new one is filled.
const old = "/.old"

// anywhere is a folder that every system has, over which the new root is mounted first.
const anywhere = "/usr"

// bare are the attributes of mounts in which nothing is executed.
const bare = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// root is the new root of this process, as far as it is filled.
type root struct {
	bound []string // what is bound for reading, by its real path
}

// enter gives this process, which is alone in its namespaces, a root in which there is
// nothing but the view.
func (v View) enter() error {
	var r root
	for _, step := range []func() error{r.begin, r.system, func() error { return r.fill(v) }, func() error { return r.leaveOut(v) }, r.end} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// begin mounts the empty root, with the one of before in it.
func (*root) begin() error {
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return failure("separate the mount namespace", err)
	}
	if err := unix.Mount("kairos", anywhere, "tmpfs", bare, "size=1m,mode=0755"); err != nil {
		return failure("mount a root", err)
	}
	if err := unix.Mkdir(anywhere+old, 0o700); err != nil {
		return failure("mount a root", err)
	}
	if err := unix.PivotRoot(anywhere, anywhere+old); err != nil {
		return failure("enter the root", err)
	}
	return failure("enter the root", unix.Chdir("/"))
}

// system fills in what every process needs.
func (r *root) system() error {
	for _, path := range system {
		if err := r.read(path); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/dev", "/proc", tmp} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // of the root, which is read-only in the end
			return failure("make "+dir, err)
		}
	}
	for _, path := range devices {
		if err := bind(path, path, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	for path, target := range map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2", "/dev/shm": tmp,
	} {
		if err := os.Symlink(target, path); err != nil {
			return failure("make "+path, err)
		}
	}
	return failure("mount /proc", unix.Mount("proc", "/proc", "proc", bare, ""))
}

// fill binds what this process may use, a folder before what is in it.
func (r *root) fill(v View) error {
	type use struct {
		path  string
		place func() error
	}
	var uses []use
	if v.Temp != "" {
		uses = append(uses, use{tmp, func() error { return bind(v.Temp, tmp, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV) }})
	}
	if v.Home != "" {
		home := filepath.Join(v.Temp, "home")
		uses = append(uses, use{v.Home, func() error {
			at, err := r.copyLinks(v.Home)
			if err != nil {
				return err
			}
			return bind(home, at, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
		}})
	}
	for _, path := range v.Read {
		uses = append(uses, use{path, func() error { return r.read(path) }})
	}
	for _, path := range v.Write {
		uses = append(uses, use{path, func() error { return r.change(path) }})
	}
	slices.SortStableFunc(uses, func(a, b use) int { return strings.Compare(a.path, b.path) })
	for _, u := range uses {
		if err := u.place(); err != nil {
			return err
		}
	}
	return nil
}

// read binds a path for reading, unless it can be read already.
func (r *root) read(path string) error {
	at, err := r.copyLinks(path)
	if err != nil || slices.ContainsFunc(r.bound, func(dir string) bool { return In(dir, at) }) {
		return err
	}
	r.bound = append(r.bound, at)
	return bind(at, at, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// copyLinks makes in this root the symbolic links that path runs through in the root of
// before, and returns the path without links. Nothing need exist at its end.
func (*root) copyLinks(path string) (string, error) {
	at, rest := "/", strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(old + next)
		if err != nil { // no link
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", failure("follow "+path, unix.ELOOP)
		}
		if _, err := os.Lstat(next); errors.Is(err, fs.ErrNotExist) {
			err = os.MkdirAll(filepath.Dir(next), 0o755) //nolint:gosec // as above
			if err = errors.Join(err, os.Symlink(target, next)); err != nil {
				return "", failure("make the link "+next, err)
			}
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(strings.Trim(filepath.Clean(target), "/"), "/"), rest...)
	}
	return at, nil
}

const maxLinks = 40

// bind makes a path of the root of before visible at a path of this one, with all that
// is mounted in it. One that does not exist is passed over.
func bind(from, to string, attributes uint64) error {
	info, err := os.Stat(old + from)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return failure("look at "+from, err)
	}
	if err := mountPoint(to, info.IsDir()); err != nil {
		return failure("make "+to, err)
	}
	if err := unix.Mount(old+from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return failure("bind "+from, err)
	}
	return failure("restrict "+from, unix.MountSetattr(unix.AT_FDCWD, to, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes}))
}

// mountPoint makes something on which a folder or a file can be mounted.
func mountPoint(path string, folder bool) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if folder {
		return os.MkdirAll(path, 0o755) //nolint:gosec // as above
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as above
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // it is empty
	if err != nil {
		return err
	}
	return f.Close()
}

// leaveOut covers what must not be seen, as OCI runtimes mask paths: an empty folder
// over folders, /dev/null over everything else.
func (r *root) leaveOut(v View) error {
	var covers []string
	for _, path := range v.Except {
		info, err := os.Stat(path)
		if err != nil {
			continue // it does not exist here
		}
		if info.IsDir() {
			covers = append(covers, path)
			err = unix.Mount("kairos", path, "tmpfs", bare, "size=64k,mode=0755")
		} else {
			err = unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
		}
		if err != nil {
			return failure("hide "+path, err)
		}
	}
	for _, path := range v.Own {
		if err := r.change(path); err != nil {
			return err
		}
	}
	for _, path := range covers {
		if err := unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return failure("hide "+path, err)
		}
	}
	return nil
}

// change binds a path for reading and writing.
func (r *root) change(path string) error {
	at, err := r.copyLinks(path)
	if err != nil {
		return err
	}
	return bind(at, at, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// end leaves the root of before, and lets nothing be changed in this one.
func (*root) end() error {
	if err := unix.Unmount(old, unix.MNT_DETACH); err != nil {
		return failure("leave the root", err)
	}
	if err := os.Remove(old); err != nil {
		return failure("leave the root", err)
	}
	return failure("close the root", unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
}

// kept are the capabilities that a root process keeps: those that containers have by
// default. They count in its user namespace only.
var kept = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FSETID, unix.CAP_FOWNER, unix.CAP_NET_RAW, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETFCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_KILL, unix.CAP_AUDIT_WRITE,
}

// dropCapabilities keeps what this process executes from having more.
func dropCapabilities() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if slices.Contains(kept, c) {
			continue
		}
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil || has == 0 { // the kernel does not know it, or it is gone already
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return failure("drop a capability", err)
		}
	}
	return nil
}
