package tables

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/logins"
)

var _ logins.Store = (*Logins)(nil)

// Logins keeps logins of people by the hashes of their secrets.
type Logins struct{ DB Base }

// StoredLogin is a row. Times are milliseconds; 0: none. No group has a line feed in its name.
type StoredLogin struct {
	ID, Hash, Principal, Name, Groups      string
	Created, Begun, Expires, Used, Revoked int64
}

// Columns returns where the columns of LoginColumns are read to.
func (s *StoredLogin) Columns() []any {
	return []any{&s.ID, &s.Hash, &s.Principal, &s.Name, &s.Groups, &s.Created, &s.Begun, &s.Expires, &s.Used, &s.Revoked}
}

// LoginColumns are the columns of a row. "groups" is a word of SQL.
const LoginColumns = `id, hash, principal, name, "groups", created, begun, expires, used, revoked`

func (s *StoredLogin) login() logins.Login {
	l := logins.Login{
		ID: s.ID, Person: logins.Person{Principal: s.Principal, Name: s.Name},
		Created: moment(s.Created), Begun: moment(s.Begun), Expires: moment(s.Expires), LastUsed: moment(s.Used), Revoked: moment(s.Revoked),
	}
	if s.Groups != "" {
		l.Groups = strings.Split(s.Groups, "\n")
	}
	return l
}

// CreateLogin implements logins.Store.
func (s *Logins) CreateLogin(ctx context.Context, l logins.Login, secret logins.Hash, forget time.Time) error {
	return s.DB.Write(ctx, func(tx Transaction) error {
		if err := tx.Exec(`DELETE FROM logins WHERE expires < $1`, millis(forget)); err != nil {
			return err
		}
		return s.Insert(tx, StoredLogin{
			ID: l.ID, Hash: hex.EncodeToString(secret[:]), Principal: l.Principal, Name: l.Name, Groups: strings.Join(l.Groups, "\n"),
			Created: millis(l.Created), Begun: millis(l.Begun), Expires: millis(l.Expires), Used: millis(l.LastUsed), Revoked: millis(l.Revoked),
		})
	})
}

// Insert stores a login.
func (s *Logins) Insert(tx Transaction, r StoredLogin) error {
	return tx.Exec(`INSERT INTO logins (`+LoginColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		r.ID, r.Hash, r.Principal, r.Name, r.Groups, r.Created, r.Begun, r.Expires, r.Used, r.Revoked)
}

// LoginOf implements logins.Store.
func (s *Logins) LoginOf(ctx context.Context, secret logins.Hash) (l logins.Login, ok bool, err error) {
	found, err := s.read(ctx, `SELECT `+LoginColumns+` FROM logins WHERE hash = $1`, hex.EncodeToString(secret[:]))
	if err != nil || len(found) == 0 {
		return l, false, err
	}
	return found[0], true, nil
}

// BeginLogin implements logins.Store.
func (s *Logins) BeginLogin(ctx context.Context, link, secret logins.Hash, at, expires time.Time) (begun bool, err error) {
	err = s.DB.Write(ctx, func(tx Transaction) error {
		n, err := tx.Changed(`UPDATE logins SET hash = $2, begun = $3, expires = $4 WHERE hash = $1 AND begun = 0 AND revoked = 0 AND expires > $3`,
			hex.EncodeToString(link[:]), hex.EncodeToString(secret[:]), millis(at), millis(expires))
		begun = n > 0
		return err
	})
	return begun, err
}

// AllLogins implements logins.Store. Ids grow with time.
func (s *Logins) AllLogins(ctx context.Context) ([]logins.Login, error) {
	return s.read(ctx, `SELECT `+LoginColumns+` FROM logins ORDER BY id DESC`)
}

func (s *Logins) read(ctx context.Context, query string, args ...any) (all []logins.Login, err error) {
	err = s.DB.Rows(ctx, query, args, func(scan func(...any) error) error {
		var r StoredLogin
		err := scan(r.Columns()...)
		all = append(all, r.login())
		return err
	})
	return all, err
}

// RevokeLogin implements logins.Store.
func (s *Logins) RevokeLogin(ctx context.Context, id string, at time.Time) (there bool, err error) {
	err = s.DB.Write(ctx, func(tx Transaction) error {
		n, err := tx.Changed(`UPDATE logins SET revoked = CASE revoked WHEN 0 THEN $2 ELSE revoked END WHERE id = $1`, id, millis(at))
		there = n > 0
		return err
	})
	return there, err
}

// UseLogin implements logins.Store.
func (s *Logins) UseLogin(ctx context.Context, id string, at time.Time) error {
	return s.DB.Write(ctx, func(tx Transaction) error {
		return tx.Exec(`UPDATE logins SET used = $2 WHERE id = $1 AND used < $2`, id, millis(at))
	})
}
