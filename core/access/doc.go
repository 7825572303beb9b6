// Package access is who calls: through which client, and which spaces they read
// and write.
package access
