package admin

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// checkPeer refuses the process of another user at the other end. The folder
// keeps them out already; this holds even where somebody opened it. The
// superuser can read our memory anyway.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("ask who is at the other end: %w", failed)
	}
	if uid := int(peer.Uid); uid != os.Getuid() && uid != 0 {
		return fmt.Errorf("the process at the other end belongs to user %d", uid)
	}
	return nil
}
