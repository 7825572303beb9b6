package tables

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/sessions"
)

var _ sessions.Store = (*Sessions)(nil)

// Sessions keeps which sessions of MCP were ended.
type Sessions struct{ DB Base }

// EndedSession is a session that was ended.
type EndedSession struct {
	Key     string
	Expires int64 // milliseconds
}

// EndSession implements sessions.Store.
func (s *Sessions) EndSession(ctx context.Context, key string, now, expires time.Time) error {
	return s.DB.Write(ctx, func(tx Transaction) error {
		if err := tx.Exec(`DELETE FROM ended_sessions WHERE expires < $1`, now.UnixMilli()); err != nil {
			return err
		}
		return s.Insert(tx, EndedSession{key, expires.UnixMilli()})
	})
}

// Insert stores that a session was ended.
func (s *Sessions) Insert(tx Transaction, e EndedSession) error {
	return tx.Exec(`INSERT INTO ended_sessions (key, expires) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`, e.Key, e.Expires)
}

// SessionEnded implements sessions.Store.
func (s *Sessions) SessionEnded(ctx context.Context, key string) (ended bool, err error) {
	err = s.DB.Rows(ctx, `SELECT 1 FROM ended_sessions WHERE key = $1`, []any{key}, func(scan func(...any) error) error {
		var one int
		ended = true
		return scan(&one)
	})
	return ended, err
}
