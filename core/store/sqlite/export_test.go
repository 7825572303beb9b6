package sqlite

import (
	"slices"

	"github.com/kairos-mcp/kairos/core/store/tables"
)

// OpenMigrated is Open for a program that has more migrations.
func OpenMigrated(path string, more ...string) (*Store, error) {
	s, err := Open(path, nil)
	if err == nil {
		s.db.migrations = slices.Concat(migrations, more)
	}
	return s, err
}

// ForgetProbe makes the next CheckWrite write.
func (s *Store) ForgetProbe() { s.db.probe = new(tables.Probe) }

// HasStep is the query for a step of a space.
var HasStep = dialect.HasStep
