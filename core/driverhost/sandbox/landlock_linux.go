package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The versions of Landlock that first knew TCP, and signals and abstract sockets.
const (
	landlockForTCP    = 4
	landlockForScopes = 6
)

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

// landlock applies the rules that the job demands.
func (j job) landlock() error {
	if !j.Landlock && !j.NoTCP {
		return nil
	}
	version, err := LandlockVersion()
	if err != nil {
		return err
	}
	var rules landlockRules
	if j.NoTCP {
		if version < landlockForTCP {
			return fmt.Errorf("version %d of Landlock does not know TCP", version)
		}
		rules.network = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if !j.Landlock {
		return restrict(rules, nil)
	}
	rules.files = handled(version)
	if version >= landlockForScopes {
		rules.scopes = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	return restrict(rules, func(fd int) error { return j.grant(fd, rules.files) })
}

// grant grants what the job lets its process see. In a root of its own that is
// everything that exists.
func (j job) grant(rules int, all uint64) error {
	read, write, temp := append(slices.Clone(system), "/proc"), slices.Concat(j.View.Write, j.View.Own, devices), j.View.Temp
	if j.Namespaces {
		read, temp = []string{"/"}, tmp
	}
	if j.Namespaces && j.View.Home != "" {
		write = append(write, j.View.Home)
	}
	if temp != "" {
		write = append(write, temp)
	}
	var errs []error
	for _, p := range append(read, j.View.Read...) {
		errs = append(errs, grantPath(rules, p, canExecute|canRead))
	}
	for _, p := range write {
		errs = append(errs, grantPath(rules, p, all))
	}
	if j.Program != "" {
		errs = append(errs, grantPath(rules, j.Program, canExecute|unix.LANDLOCK_ACCESS_FS_READ_FILE))
	}
	return errors.Join(errs...)
}

// landlockRules is what the kernel calls landlock_ruleset_attr.
type landlockRules struct{ files, network, scopes uint64 }

// restrict applies rules to the calling thread; fill adds exceptions to them.
func restrict(attr landlockRules, fill func(rules int) error) (err error) {
	size := unsafe.Sizeof(attr) // kernels that do not know all of it refuse more
	switch {
	case attr.scopes != 0:
	case attr.network != 0:
		size = unsafe.Offsetof(attr.scopes)
	default:
		size = unsafe.Offsetof(attr.network)
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
