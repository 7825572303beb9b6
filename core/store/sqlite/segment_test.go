package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func TestTheIndexFollowsEveryChange(t *testing.T) {
	storetest.IndexFollowsChanges(t, func(t *testing.T) storetest.Protocols {
		return open(t, filepath.Join(t.TempDir(), "kairos.db"))
	})
}
