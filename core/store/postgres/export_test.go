package postgres

import "time"

// OpenImpatient is Open with a time that a read waits for a server that says nothing.
func OpenImpatient(address string, silent time.Duration) (*Store, error) {
	s, err := Open(address, nil)
	if err == nil {
		s.db.silent = silent
	}
	return s, err
}
