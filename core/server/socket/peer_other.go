//go:build !linux

package socket

import "net"

// checkPeer leaves it to the private folder where the kernel offers no SO_PEERCRED.
func checkPeer(*net.UnixConn) error { return nil }

// checkCaller leaves it to the private folder.
func checkCaller(*net.UnixConn) error { return nil }
