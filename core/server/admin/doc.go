// Package admin is the local door to a running server: which drivers it runs
// and how they are, their log lines, reload and rollback. It speaks HTTP over a
// unix socket that only the user who runs the server can open, needs the token
// in the file beside the socket, and refuses what the server itself has started:
// a driver must not administer its server. It is not reachable from other machines.
package admin
