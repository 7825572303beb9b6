package qdrant

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/core/fault"
)

const (
	// oldestServer has conditional upserts and computes qdrant/bm25 itself.
	oldestServer = "1.16"

	// indexFresh is how long it may take until a process notices that another
	// one has made a new search index.
	indexFresh = 10 * time.Second
	// createLimit bounds each request that makes a collection.
	createLimit = time.Minute
)

// schema finds, makes and migrates the collections.
type schema struct {
	server     *server
	index      *searchIndex
	sweeper    *sweeper
	migrations migrations
	turn       chan struct{} // holds a value while a call prepares the collections
}

// names has the names of the collections and aliases.
type names struct {
	base    string
	version int // of the schema
}

// alias is the alias of the protocols' collection that is in use.
func (n names) alias() string { return n.base }

// protocols is the collection with the durable data.
func (n names) protocols() string { return n.ofVersion(n.version) }

func (n names) ofVersion(v int) string { return n.base + "_v" + strconv.Itoa(v) }

// index is the alias of the search index that is in use.
func (n names) index() string { return n.base + "_index" }

// forgetSchema makes the next call check the collections again.
func (s *server) forgetSchema() { s.ready.Store(false) }

// fresh reports whether the index was read recently.
func (ix *searchIndex) fresh() bool {
	seen := ix.seen.Load()
	return seen != nil && ix.server.options.Clock.Since(*seen) < indexFresh
}

// prepare makes sure that the collections exist. Later calls cost nothing, apart
// from a check of the index now and then.
func (c *schema) prepare(ctx context.Context) error {
	if c.server.ready.Load() && c.index.fresh() {
		return nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	case <-c.server.closing.Done():
		return c.server.explain(ctx, c.server.closing.Err())
	}
	if c.server.ready.Load() {
		if c.index.fresh() {
			return nil
		}
		// A newer program may have migrated the protocols meanwhile.
		if _, err := c.findSchema(ctx); err != nil {
			c.server.forgetSchema()
			return err
		}
		return c.index.refresh(ctx)
	}
	if err := c.server.checkServer(ctx); err != nil {
		return err
	}
	found, err := c.findSchema(ctx)
	if err != nil {
		return err
	}
	switch {
	case found == 0:
		err = c.createProtocols(ctx)
	case found < c.migrations.version():
		err = c.migrate(ctx, found)
	}
	if err != nil {
		return err
	}
	if err := c.index.open(ctx); err != nil {
		return err
	}
	c.server.ready.Store(true)
	c.sweeper.start()
	return nil
}

// checkServer rejects a server without the required features.
func (s *server) checkServer(ctx context.Context) error {
	reply, err := call(ctx, s, func(ctx context.Context) (*pb.HealthCheckReply, error) { return s.client.HealthCheck(ctx) })
	if err != nil {
		return err
	}
	if older(reply.GetVersion(), oldestServer) {
		return fault.New(fault.StoreFailed, "Qdrant at %s is version %s: version %s or newer is needed", s.at, reply.GetVersion(), oldestServer)
	}
	return nil
}

// older compares the first two numbers of versions; an invalid version is not
// older.
func older(version, than string) bool {
	parse := func(v string) (n [2]int, ok bool) {
		parts := strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3)
		if len(parts) < 2 {
			return n, false
		}
		for i := range n {
			var err error
			if n[i], err = strconv.Atoi(parts[i]); err != nil {
				return n, false
			}
		}
		return n, true
	}
	have, ok := parse(version)
	want, _ := parse(than)
	return ok && slices.Compare(have[:], want[:]) < 0
}

// findSchema returns the schema version of the protocols; 0: none. It rejects
// those of a newer version and of other programs.
func (c *schema) findSchema(ctx context.Context) (int, error) {
	n := c.server.names
	collections, err := call(ctx, c.server, c.server.client.ListCollections)
	if err != nil {
		return 0, err
	}
	if slices.Contains(collections, n.alias()) {
		return 0, fault.New(fault.StoreFailed, "Qdrant at %s has a collection %q that this program did not make", c.server.at, n.alias()).
			WithRemedy("set QDRANT_COLLECTION to another name; if it is of the earlier KAIROS server, read it with: kairos import --from-qdrant URL --collection %s", n.alias())
	}
	aliases, err := call(ctx, c.server, c.server.client.ListAliases)
	if err != nil {
		return 0, err
	}
	for _, a := range aliases {
		if a.GetAliasName() != n.alias() {
			continue
		}
		return c.checkTarget(a.GetCollectionName())
	}
	return 0, nil
}

var versioned = regexp.MustCompile(`^_v([0-9]{1,6})$`)

// checkTarget returns the schema version of the collection behind the alias.
func (c *schema) checkTarget(collection string) (int, error) {
	n := c.server.names
	rest, ours := strings.CutPrefix(collection, n.base)
	m := versioned.FindStringSubmatch(rest)
	if !ours || m == nil {
		return 0, fault.New(fault.StoreFailed, "Qdrant at %s: alias %q leads to collection %q, which this program did not make", c.server.at, n.alias(), collection).
			WithRemedy("set QDRANT_COLLECTION to another name")
	}
	v, err := strconv.Atoi(m[1])
	if err != nil || v > n.version {
		return 0, fault.New(fault.StoreFailed, "Qdrant at %s: collection %q was written by a newer version of this program", c.server.at, collection).
			WithRemedy("use that version; this one would damage what it does not know")
	}
	if v < 1 {
		return 0, fault.New(fault.StoreFailed, "Qdrant at %s: collection %q has no version that this program knows", c.server.at, collection).
			WithRemedy("set QDRANT_COLLECTION to another name")
	}
	return v, nil
}

// protocolFields are the payload fields of the protocols that filters use.
var protocolFields = map[string]pb.FieldType{
	fieldKind: pb.FieldType_FieldTypeKeyword, fieldSpace: pb.FieldType_FieldTypeKeyword, fieldSteps: pb.FieldType_FieldTypeKeyword,
	fieldFormer: pb.FieldType_FieldTypeKeyword, fieldToken: pb.FieldType_FieldTypeKeyword, fieldLock: pb.FieldType_FieldTypeKeyword,
	fieldTitleKey: pb.FieldType_FieldTypeInteger, fieldWritten: pb.FieldType_FieldTypeInteger, fieldLockUntil: pb.FieldType_FieldTypeInteger,
	fieldCount: pb.FieldType_FieldTypeInteger,
}

// createProtocols makes the collection of the protocols. The alias comes last, so
// that it always leads to a complete collection. Another process may do the same.
func (c *schema) createProtocols(ctx context.Context) error {
	n := c.server.names
	if err := c.createEmpty(ctx); err != nil {
		return err
	}
	if err := c.server.update(ctx, n.protocols(), upsert(shownMark())); err != nil {
		return err
	}
	if err := c.server.pointAlias(ctx, n.alias(), n.protocols()); err != nil {
		return err
	}
	c.server.log.InfoContext(ctx, "collection created", "qdrant", c.server.at.String(), "collection", n.protocols())
	return nil
}

func (c *schema) createEmpty(ctx context.Context) error {
	return c.server.createCollection(ctx, &pb.CreateCollection{
		CollectionName: c.server.names.protocols(), VectorsConfig: pb.NewVectorsConfigMap(nil),
	}, protocolFields)
}

// createCollection creates a collection with indexes on its fields, or completes
// it.
func (s *server) createCollection(ctx context.Context, c *pb.CreateCollection, fields map[string]pb.FieldType) error {
	// One shard: a request is one record of its log, all or nothing.
	c.ShardNumber = pb.PtrOf(uint32(1))
	c.OnDiskPayload = pb.PtrOf(true)
	limit := max(s.options.Timeout, createLimit)
	_, err := callWithin(ctx, s, limit, func(ctx context.Context) (struct{}, error) {
		err := s.client.CreateCollection(ctx, c)
		if err != nil && status.Code(err) != codes.Unavailable {
			if exists, e := s.client.CollectionExists(ctx, c.GetCollectionName()); e == nil && exists {
				err = nil // created by another process, or by an attempt whose answer was lost
			}
		}
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	for name, kind := range fields {
		// Without waiting: the server handles them in order, before the first points.
		if _, err := callWithin(ctx, s, limit, func(ctx context.Context) (*pb.UpdateResult, error) {
			return s.client.CreateFieldIndex(ctx, &pb.CreateFieldIndexCollection{
				CollectionName: c.GetCollectionName(), FieldName: name, FieldType: kind.Enum(),
			})
		}); err != nil {
			return err
		}
	}
	// The first points wait for the indexes, which takes longer than a usual request.
	_, err = callWithin(ctx, s, limit, func(ctx context.Context) (*pb.UpdateResult, error) {
		return s.client.Delete(ctx, &pb.DeletePoints{CollectionName: c.GetCollectionName(), Wait: pb.PtrOf(true), Points: pb.NewPointsSelectorFilter(noPoint())})
	})
	return err
}

// pointAlias moves an alias to a collection atomically.
func (s *server) pointAlias(ctx context.Context, alias, collection string) error {
	_, err := call(ctx, s, func(ctx context.Context) (struct{}, error) {
		err := s.client.UpdateAliases(ctx, []*pb.AliasOperations{pb.NewAliasDelete(alias), pb.NewAliasCreate(alias, collection)})
		return struct{}{}, err
	})
	if err != nil {
		return fmt.Errorf("point alias %s to %s: %w", alias, collection, err)
	}
	return nil
}
