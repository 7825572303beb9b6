package qdrant

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
)

// DefaultCollection is the alias if Options have none.
const DefaultCollection = "kairos"

// Options describe the server and the index on it. Only URL is required.
type Options struct {
	client.Options
	// Collection is the alias of the index, and the names of its collections begin
	// with it. Empty: DefaultCollection.
	Collection string
}

var collectionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,120}$`)

// Validate reports what is wrong with the options, without asking the server.
func (o Options) Validate() error {
	if err := o.Options.Validate(); err != nil {
		return err
	}
	if o.Collection != "" && !collectionName.MatchString(o.Collection) {
		return fmt.Errorf("collection %q: must be 1 to 120 letters, digits, - and _", o.Collection)
	}
	return nil
}

var _ index.Index = (*Index)(nil)

// Index is an index on a server. Its methods may be called concurrently.
type Index struct {
	client      *client.Client
	collections collections
	opened      atomic.Pointer[opened] // nil: none was found yet
}

// collections finds, makes and removes the collections of indexes.
type collections struct {
	server *client.Client
	alias  string
}

// opened is the index that was found last.
type opened struct {
	id     string
	model  index.Model
	sample sample
}

// New returns an index. It asks nothing of the server before its first call. A nil
// log discards all messages.
func New(o Options, log *slog.Logger) (*Index, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c, err := client.New(o.Options, log)
	if err != nil {
		return nil, err
	}
	return &Index{client: c, collections: collections{c, cmp.Or(o.Collection, DefaultCollection)}}, nil
}

// Close ends the connections. It may be called twice.
func (x *Index) Close() error { return x.client.Close() }

// Location implements index.Index.
func (x *Index) Location() string {
	return "Qdrant at " + x.client.Address() + ", collection " + x.collections.alias
}

// Metadata of a collection.
const (
	metaDatabase = "kairos_database" // id of the database that it is made from
	metaID       = "kairos_index"    // id of the index
	metaModel    = "kairos_model"
	metaLength   = "kairos_length" // of a vector
)

// identity is what the metadata of a collection say.
type identity struct {
	database, id string
	model        index.Model
}

func (c collections) identity(ctx context.Context, collection string) (identity, error) {
	info, err := client.Call(ctx, c.server, func(ctx context.Context, p *pb.Client) (*pb.CollectionInfo, error) {
		return p.GetCollectionInfo(ctx, collection)
	})
	if err != nil {
		return identity{}, err
	}
	m := info.GetConfig().GetMetadata()
	return identity{
		database: m[metaDatabase].GetStringValue(), id: m[metaID].GetStringValue(),
		model: index.Model{Name: m[metaModel].GetStringValue(), Length: int(m[metaLength].GetIntegerValue())},
	}, nil
}

// find returns the collection behind the alias if it belongs to the database; "":
// there is none. fault.Conflict: it belongs to something else.
func (c collections) find(ctx context.Context, database string) (string, identity, error) {
	target, err := c.server.Target(ctx, c.alias)
	if err != nil {
		return "", identity{}, err
	}
	if target == "" {
		exists, err := c.server.Exists(ctx, c.alias)
		if err == nil && exists {
			err = c.conflict("there is a collection %q that this program did not make", c.alias).
				WithHint("set QDRANT_COLLECTION (qdrant.collection) to another name; if it is of the earlier KAIROS server, read it with `kairos import --from-qdrant %s --collection %s`", c.server.Address(), c.alias)
		}
		return "", identity{}, err
	}
	found, err := c.identity(ctx, target)
	switch {
	case err != nil:
		return "", found, err
	case found.database == "":
		return "", found, c.conflict("the alias %q leads to collection %q, which this program did not make", c.alias, target).
			WithHint("set QDRANT_COLLECTION (qdrant.collection) to another name")
	case found.database != database:
		return "", found, c.conflict("collection %q is the index of another database", target).
			WithHint("set QDRANT_COLLECTION (qdrant.collection) to another name: each database has an index of its own; if this one was restored from a backup and replaces that one, run `kairos db index rebuild --replace`")
	}
	return target, found, nil
}

func (c collections) conflict(format string, args ...any) *fault.Error {
	return fault.New(fault.Conflict, "Qdrant at %s: "+format, append([]any{c.server.Address()}, args...)...)
}

// Check implements index.Index.
func (x *Index) Check(ctx context.Context, database string) error {
	if err := x.client.CheckVersion(ctx); err != nil {
		return err
	}
	_, _, err := x.collections.find(ctx, database)
	return err
}

// collectionFor is the name of the collection of an index.
func (c collections) collectionFor(database string, m index.Model) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{database, m.Name, strconv.Itoa(m.Length)}, "\n")))
	return c.prefix() + hex.EncodeToString(sum[:6])
}

func (c collections) prefix() string { return c.alias + "_index_" }
