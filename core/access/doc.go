// Package access describes callers: their principal, their client, and the spaces they
// read and write.
package access
