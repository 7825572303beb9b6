package postgres

import (
	"context"
	"net"
	"syscall"
	"time"
)

// silence is how long a connection may get no answer from the host of the server
// before it counts as lost. Without a limit, a network that swallows packets would
// keep calls waiting for a quarter of an hour. It is less than patience, so that a
// call tries to connect once more and then says why it failed.
const silence = 7 * time.Second

// dial connects so that the system notices a host that no longer answers.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 2, Interval: silence / 4, Count: 2},
		Control: func(network, _ string, c syscall.RawConn) (err error) {
			if network == "unix" {
				return nil
			}
			failed := c.Control(func(socket uintptr) { err = limitSilence(socket) })
			if err == nil {
				err = failed
			}
			return err
		},
	}
	return dialer.DialContext(ctx, network, address)
}
