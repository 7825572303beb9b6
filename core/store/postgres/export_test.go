package postgres

import (
	"slices"
	"time"
)

// OpenImpatient is Open with a time that a read waits for a server that says nothing.
func OpenImpatient(address string, silent time.Duration) (*Store, error) {
	s, err := Open(address, nil)
	if err == nil {
		s.db.silent = silent
	}
	return s, err
}

// OpenMigrated is Open for a program that has more migrations.
func OpenMigrated(address string, more ...string) (*Store, error) {
	s, err := Open(address, nil)
	if err == nil {
		s.db.migrations = slices.Concat(migrations, more)
	}
	return s, err
}
