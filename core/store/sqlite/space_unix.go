//go:build unix

package sqlite

import "golang.org/x/sys/unix"

// freeSpace is how many bytes this user can still write to the disk of a folder.
func freeSpace(dir string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:unconvert // the type differs between systems
}
