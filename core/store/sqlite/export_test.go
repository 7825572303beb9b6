package sqlite

import "slices"

// OpenMigrated is Open for a program that has more migrations.
func OpenMigrated(path string, more ...string) (*Store, error) {
	s, err := Open(path, nil)
	if err == nil {
		s.db.migrations = slices.Concat(migrations, more)
	}
	return s, err
}
