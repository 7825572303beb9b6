package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// uncover tries everything to get rid of a mount over a file.
func uncover(file string) string {
	for at := file; at != "/"; at = filepath.Dir(at) {
		_ = syscall.Unmount(at, syscall.MNT_DETACH)
	}
	if ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", os.Getppid())); err == nil {
		_ = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS)
	}
	again := exec.Command("/bin/sh", "-c", `umount -l "$0" "${0%/*}"; cat "$0"`, file)
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
	}
	if out, err := again.Output(); err == nil && len(out) > 0 {
		return "opened: " + string(out)
	}
	return look(file, os.O_RDONLY)
}
