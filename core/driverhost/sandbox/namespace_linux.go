package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// EnterNamespace gives the calling thread, and every process that it starts, a
// mount namespace of its own. The thread must be locked and never used for
// anything else. It needs CAP_SYS_ADMIN.
func EnterNamespace() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	return private()
}

// RenewNamespace gives the calling thread, which has a mount namespace of its
// own, a copy of it: what it mounts from now on concerns only the processes that
// it starts from now on.
func RenewNamespace() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("copy the mount namespace: %w", err)
	}
	return nil
}

// private keeps mounts in this namespace from reaching the one it came from.
func private() error {
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("separate the mount namespace: %w", err)
	}
	return nil
}

// Hide mounts what is not covered yet over the paths, as OCI runtimes mask
// paths: an empty folder over folders, /dev/null over everything else.
func Hide(covers []Cover) error {
	for _, c := range covers {
		if err := c.mount(); err != nil && !errors.Is(err, unix.ENOENT) { // removed meanwhile, or in a folder that is covered
			return fmt.Errorf("hide %s: %w", c.Path, err)
		}
	}
	return nil
}

func (c Cover) mount() error {
	var st unix.Stat_t
	if err := unix.Stat(c.Path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3) {
			return nil // /dev/null is there already
		}
		return unix.Mount("/dev/null", c.Path, "", unix.MS_BIND, "")
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(c.Path, &fs); err != nil {
		return err
	}
	covered := fs.Type == unix.TMPFS_MAGIC && fs.Flags&unix.ST_RDONLY != 0
	if c.Private {
		return c.mountPrivate(covered)
	}
	if c.ReadOnly {
		if fs.Flags&unix.ST_RDONLY != 0 {
			return nil
		}
		if err := unix.Mount(c.Path, c.Path, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		// Flags that the mount beneath has are locked in a user namespace.
		kept := uintptr(fs.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
		return unix.Mount("", c.Path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept|atime(fs.Flags), "")
	}
	if covered {
		return nil
	}
	return mountEmpty(c.Path, unix.MS_RDONLY)
}

const bare = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

func mountEmpty(path string, flags uintptr) error {
	return unix.Mount("kairos", path, "tmpfs", bare|flags, "size=4k,mode=0755")
}

// mountPrivate covers a folder but for one in it, and not as the process before
// saw it.
func (c Cover) mountPrivate(covered bool) (err error) {
	if covered {
		if err := unix.Unmount(c.Path, unix.MNT_DETACH); err != nil {
			return err
		}
	}
	if c.Except == "" {
		return mountEmpty(c.Path, unix.MS_RDONLY)
	}
	kept, err := unix.Open(c.Except, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(kept)) }()
	if err := mountEmpty(c.Path, 0); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Unmount(c.Path, unix.MNT_DETACH))
		}
	}()
	if err := unix.Mkdir(c.Except, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", kept), c.Except, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", c.Path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|bare, "")
}

// atime keeps how a file system notes accesses, which is locked as well.
func atime(flags int64) uintptr {
	var out uintptr
	for _, f := range []uintptr{unix.MS_NOATIME, unix.MS_NODIRATIME, unix.MS_RELATIME} {
		if uintptr(flags)&f != 0 {
			out |= f
		}
	}
	return out
}

// kept are the capabilities that a root process keeps: those that containers
// have by default. Without the others it cannot unmount a cover, enter another
// namespace, open a file by its handle or read the memory of others.
var kept = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FSETID, unix.CAP_FOWNER, unix.CAP_NET_RAW, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETFCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_KILL, unix.CAP_AUDIT_WRITE,
}

// DropCapabilities keeps programs that the calling thread executes, and their
// children, from having more than the capabilities of a container. The thread
// keeps its own.
func DropCapabilities() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if slices.Contains(kept, c) {
			continue
		}
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil || has == 0 { // the kernel does not know it, or it is gone already
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("drop a capability: %w", err)
		}
	}
	return nil
}

// InUserNamespace lets a process be born in a user namespace, in which it stays
// who it is, and adds to the flags of what it has besides.
func InUserNamespace(attr *syscall.SysProcAttr, flags uintptr) {
	attr.Cloneflags |= unix.CLONE_NEWUSER | flags
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
}
