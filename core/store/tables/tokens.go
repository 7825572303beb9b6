package tables

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/tokens"
)

var _ tokens.Store = (*Tokens)(nil)

// Tokens keeps access tokens by the hashes of their secrets.
type Tokens struct{ DB Base }

// StoredToken is a row. Times are milliseconds; 0: none. No space has a blank in its id.
type StoredToken struct {
	ID, Hash, Owner, Name, Spaces, May string
	Created, Expires, Used, Revoked    int64
}

// Columns returns where the columns of TokenColumns are read to.
func (s *StoredToken) Columns() []any {
	return []any{&s.ID, &s.Hash, &s.Owner, &s.Name, &s.Spaces, &s.May, &s.Created, &s.Expires, &s.Used, &s.Revoked}
}

// TokenColumns are the columns of a row.
const TokenColumns = `id, hash, owner, name, spaces, may, created, expires, used, revoked`

func (s *StoredToken) token() tokens.Token {
	return tokens.Token{
		ID: s.ID, Owner: s.Owner, Name: s.Name, Spaces: strings.Fields(s.Spaces), May: verbs(s.May),
		Created: moment(s.Created), Expires: moment(s.Expires), LastUsed: moment(s.Used), Revoked: moment(s.Revoked),
	}
}

// verbs are those in a column; nil: it has none.
func verbs(words string) (all []access.Verb) {
	for _, w := range strings.Fields(words) {
		all = append(all, access.Verb(w))
	}
	return all
}

func joined(all []access.Verb) string {
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = string(v)
	}
	return strings.Join(words, " ")
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// CreateToken implements tokens.Store.
func (s *Tokens) CreateToken(ctx context.Context, t tokens.Token, secret tokens.Hash) error {
	return s.DB.Write(ctx, func(tx Transaction) error {
		return s.Insert(tx, StoredToken{
			ID: t.ID, Hash: hex.EncodeToString(secret[:]), Owner: t.Owner, Name: t.Name, Spaces: strings.Join(t.Spaces, " "), May: joined(t.May),
			Created: millis(t.Created), Expires: millis(t.Expires), Used: millis(t.LastUsed), Revoked: millis(t.Revoked),
		})
	})
}

// Insert stores a token.
func (s *Tokens) Insert(tx Transaction, r StoredToken) error {
	return tx.Exec(`INSERT INTO tokens (`+TokenColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		r.ID, r.Hash, r.Owner, r.Name, r.Spaces, r.May, r.Created, r.Expires, r.Used, r.Revoked)
}

// TokenOf implements tokens.Store.
func (s *Tokens) TokenOf(ctx context.Context, secret tokens.Hash) (t tokens.Token, ok bool, err error) {
	found, err := s.read(ctx, `SELECT `+TokenColumns+` FROM tokens WHERE hash = $1`, hex.EncodeToString(secret[:]))
	if err != nil || len(found) == 0 {
		return t, false, err
	}
	return found[0], true, nil
}

// AllTokens implements tokens.Store. Ids grow with time.
func (s *Tokens) AllTokens(ctx context.Context) ([]tokens.Token, error) {
	return s.read(ctx, `SELECT `+TokenColumns+` FROM tokens ORDER BY id DESC`)
}

func (s *Tokens) read(ctx context.Context, query string, args ...any) (all []tokens.Token, err error) {
	err = s.DB.Rows(ctx, query, args, func(scan func(...any) error) error {
		var r StoredToken
		err := scan(r.Columns()...)
		all = append(all, r.token())
		return err
	})
	return all, err
}

// RevokeToken implements tokens.Store.
func (s *Tokens) RevokeToken(ctx context.Context, id string, at time.Time) (there bool, err error) {
	err = s.DB.Write(ctx, func(tx Transaction) error {
		n, err := tx.Changed(`UPDATE tokens SET revoked = CASE revoked WHEN 0 THEN $2 ELSE revoked END WHERE id = $1`, id, millis(at))
		there = n > 0
		return err
	})
	return there, err
}

// UseToken implements tokens.Store.
func (s *Tokens) UseToken(ctx context.Context, id string, at time.Time) error {
	return s.DB.Write(ctx, func(tx Transaction) error {
		return tx.Exec(`UPDATE tokens SET used = $2 WHERE id = $1 AND used < $2`, id, millis(at))
	})
}
