package sandbox

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlockForTCP is the first version of Landlock that knows TCP.
const landlockForTCP = 4

// Rights of Landlock, by what is granted.
const (
	canExecute = unix.LANDLOCK_ACCESS_FS_EXECUTE
	canRead    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	ofFiles    = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// LandlockVersion is what the kernel knows of Landlock, at least 1.
func LandlockVersion() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("ask for Landlock: %w", errno)
	}
	return int(version), nil
}

// handled are the rights on files that a version of Landlock can take away.
func handled(version int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM)<<1 - 1
	for _, later := range []struct {
		version int
		right   uint64
	}{
		{2, unix.LANDLOCK_ACCESS_FS_REFER}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
	} {
		if version >= later.version {
			rights |= later.right
		}
	}
	return rights
}

// GrantOnly keeps the calling thread, and every process that it starts, from
// all files but those granted and those of the system. The thread must be
// locked and never used for anything else.
func GrantOnly(g Grants) (err error) {
	version, err := LandlockVersion()
	if err != nil {
		return err
	}
	all := handled(version)
	return restrict(landlockRules{files: all}, func(rules int) error {
		var errs []error
		for _, p := range readable {
			errs = append(errs, grantPath(rules, p, canExecute|canRead))
		}
		for _, p := range append(usable, g.Use...) {
			errs = append(errs, grantPath(rules, p, all))
		}
		if g.Execute != nil {
			errs = append(errs, grant(rules, int(g.Execute.Fd()), canExecute|unix.LANDLOCK_ACCESS_FS_READ_FILE))
		}
		return errors.Join(errs...)
	})
}

// DenyTCP keeps the calling thread, and every process that it starts, from
// connecting to and listening on any TCP port.
func DenyTCP() error {
	version, err := LandlockVersion()
	if err != nil {
		return err
	}
	if version < landlockForTCP {
		return fmt.Errorf("version %d of Landlock does not know TCP", version)
	}
	return restrict(landlockRules{network: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP}, nil)
}

// landlockRules is what the kernel calls landlock_ruleset_attr.
type landlockRules struct{ files, network uint64 }

// restrict applies rules to the calling thread; fill adds exceptions to them.
func restrict(attr landlockRules, fill func(rules int) error) (err error) {
	size := unsafe.Sizeof(attr)
	if attr.network == 0 {
		size = unsafe.Sizeof(attr.files) // kernels that know files only refuse more
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make Landlock rules: %w", errno)
	}
	defer func() { err = errors.Join(err, unix.Close(int(fd))) }()
	if fill != nil {
		if err := fill(int(fd)); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("apply Landlock rules: %w", errno)
	}
	return nil
}

// grantPath grants a path if it exists.
func grantPath(rules int, path string, rights uint64) (err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("grant %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := grant(rules, fd, rights); err != nil {
		return fmt.Errorf("grant %s: %w", path, err)
	}
	return nil
}

// grant grants an open file or folder.
func grant(rules, fd int, rights uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	version, err := LandlockVersion()
	if err != nil {
		return err
	}
	rights &= handled(version)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= ofFiles
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
