package socket

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// checkPeer refuses the process of another user at the other end. The folder
// keeps them out already; this holds even where somebody opened it. The
// superuser can read our memory anyway.
func checkPeer(conn *net.UnixConn) error {
	_, err := peerOf(conn)
	return err
}

// checkCaller is checkPeer, and refuses descendants of this process and of other programs
// named kairos: they may be drivers. A driver cannot leave them, because its orphans become
// children of its server, which is their subreaper.
func checkCaller(conn *net.UnixConn) error {
	pid, err := peerOf(conn)
	if err != nil || pid == os.Getpid() {
		return err
	}
	for at := pid; at > 1; {
		if at, err = parentOf(at); err != nil {
			return fmt.Errorf("find out who started process %d: %w", pid, err)
		}
		if at == 0 {
			return nil // whoever started it is outside of our container
		}
		if at == os.Getpid() {
			return fmt.Errorf("process %d was started by a driver of this server", pid)
		}
		if ours, err := runsKairos(at); err != nil {
			return fmt.Errorf("find out whether process %d was started by a server: %w", pid, err)
		} else if ours {
			return fmt.Errorf("process %d was started by the KAIROS process %d, so it may be a driver", pid, at)
		}
	}
	return nil
}

// runsKairos reports whether a process runs a program of the name kairos. The program of
// another user cannot be read: it is not a server of this user.
func runsKairos(pid int) (bool, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	return filepath.Base(strings.TrimSuffix(path, deleted)) == "kairos", err
}

// deleted ends the path of a program whose file was replaced since it started.
const deleted = " (deleted)"

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
