package socket

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// checkPeer refuses the process of another user at the other end. The folder
// keeps them out already; this holds even where somebody opened it. The
// superuser can read our memory anyway.
func checkPeer(conn *net.UnixConn) error {
	_, err := peerOf(conn)
	return err
}

// checkCaller is checkPeer, and refuses descendants of this process. A driver
// cannot leave them: its orphans become children of this process, which is
// their subreaper.
func checkCaller(conn *net.UnixConn) error {
	pid, err := peerOf(conn)
	if err != nil || pid == os.Getpid() {
		return err
	}
	for at := pid; at > 1; {
		if at, err = parentOf(at); err != nil {
			return fmt.Errorf("find out who started process %d: %w", pid, err)
		}
		if at == os.Getpid() {
			return fmt.Errorf("process %d was started by a driver of this server", pid)
		}
	}
	return nil
}

// peerOf returns the process at the other end, unless it is another user's.
func peerOf(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *syscall.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, fmt.Errorf("ask who is at the other end: %w", failed)
	}
	if uid := int(peer.Uid); uid != os.Getuid() && uid != 0 {
		return 0, fmt.Errorf("the process at the other end belongs to user %d", uid)
	}
	return int(peer.Pid), nil
}

// parentOf reads the parent of a process.
func parentOf(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may contain anything; state and parent follow it.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0, errors.New("its status is not readable")
	}
	return strconv.Atoi(string(fields[1]))
}
