// Package socket is the unix socket on which a server serves the operations to the user
// that runs it, and how commands find it. The kernel says whose process the peer is;
// processes that the server started itself, such as drivers, are refused. Beside the
// socket lies the token that the calls of operators over HTTP need.
package socket
