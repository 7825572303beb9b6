// Package admin is the local door to a running server: which drivers it runs
// and how they are, their log lines, reload and rollback. It speaks HTTP over a
// unix socket that only the user who runs the server can open; it is no way in
// from another machine and has no other authentication.
package admin
