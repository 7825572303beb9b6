package qdrant

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
)

// createLimit bounds the making of a collection, which takes longer than a usual
// request.
const createLimit = time.Minute

// Find implements index.Index.
func (x *Index) Find(ctx context.Context, database string, m index.Model) (string, error) {
	target, found, err := x.collections.find(ctx, database)
	if err != nil || target == "" || found.model != m {
		return "", err
	}
	return x.use(found), nil
}

// use makes the index the one that is asked, and returns its id.
func (x *Index) use(found identity) string {
	if have := x.opened.Load(); have == nil || have.id != found.id {
		x.opened.Store(&opened{id: found.id, model: found.model})
	}
	return found.id
}

// Make implements index.Index.
func (x *Index) Make(ctx context.Context, database string, m index.Model) (string, error) {
	if err := x.client.CheckVersion(ctx); err != nil {
		return "", err
	}
	if id, err := x.Find(ctx, database, m); id != "" || err != nil {
		return id, err
	}
	target, found, err := x.collections.create(ctx, database, m)
	if err != nil {
		return "", err
	}
	if err := x.collections.pointAlias(ctx, target); err != nil {
		return "", err
	}
	return x.use(found), x.collections.drop(ctx, database, target)
}

// Drop implements index.Index.
func (x *Index) Drop(ctx context.Context, database string) error {
	if _, _, err := x.collections.find(ctx, database); err != nil {
		return err // not before it is known whose the alias is
	}
	x.opened.Store(nil)
	return x.collections.drop(ctx, database, "")
}

// Release removes the index behind the alias, whatever database it was made from:
// for a database that replaces that one. What is not an index stays.
func (x *Index) Release(ctx context.Context) error {
	target, err := x.client.Target(ctx, x.collections.alias)
	if err != nil || target == "" {
		return err
	}
	found, err := x.collections.identity(ctx, target)
	if err != nil || found.database == "" {
		return err
	}
	x.opened.Store(nil)
	return x.collections.drop(ctx, found.database, "")
}

// drop removes the collections of the database except one. Those of other
// databases and programs stay.
func (c collections) drop(ctx context.Context, database, except string) error {
	all, err := client.Call(ctx, c.server, func(ctx context.Context, p *pb.Client) ([]string, error) { return p.ListCollections(ctx) })
	if err != nil {
		return err
	}
	for _, collection := range all {
		if collection == except || !strings.HasPrefix(collection, c.prefix()) {
			continue
		}
		found, err := c.identity(ctx, collection)
		switch {
		case fault.CodeOf(err) == fault.StoreUnavailable:
			return err
		case err != nil || found.database != database:
			continue // another process may be removing it
		}
		if _, err := client.CallWithin(ctx, c.server, createLimit, func(ctx context.Context, p *pb.Client) (struct{}, error) {
			return struct{}{}, p.DeleteCollection(ctx, collection)
		}); err != nil {
			return err
		}
	}
	return nil
}

// create makes the collection of an index. Another process may have made it
// already, and of two the index of the first one is used.
func (c collections) create(ctx context.Context, database string, m index.Model) (string, identity, error) {
	made := c.description(database, m)
	name := made.GetCollectionName()
	if _, err := client.CallWithin(ctx, c.server, createLimit, func(ctx context.Context, p *pb.Client) (struct{}, error) {
		err := p.CreateCollection(ctx, made)
		if err != nil {
			if exists, e := p.CollectionExists(ctx, name); e == nil && exists {
				err = nil
			}
		}
		return struct{}{}, err
	}); err != nil {
		return "", identity{}, err
	}
	found, err := c.identity(ctx, name)
	if err != nil {
		return "", identity{}, err
	}
	if found.database != database || found.model != m {
		return "", identity{}, c.conflict("there is a collection %q that this program did not make", name).
			WithHint("set QDRANT_COLLECTION (qdrant.collection) to another name")
	}
	for field, kind := range indexedFields {
		if _, err := client.CallWithin(ctx, c.server, createLimit, func(ctx context.Context, p *pb.Client) (*pb.UpdateResult, error) {
			return p.CreateFieldIndex(ctx, &pb.CreateFieldIndexCollection{CollectionName: name, FieldName: field, FieldType: kind.Enum(), Wait: pb.PtrOf(true)})
		}); err != nil {
			return "", identity{}, err
		}
	}
	return name, found, nil
}

// description is a new collection.
func (c collections) description(database string, m index.Model) *pb.CreateCollection {
	vectors := map[string]*pb.VectorParams{}
	if m.Length > 0 {
		vectors[vectorName] = &pb.VectorParams{
			Size: uint64(m.Length), Distance: pb.Distance_Cosine, OnDisk: pb.PtrOf(true), //nolint:gosec // the length of a vector
			QuantizationConfig: pb.NewQuantizationScalar(&pb.ScalarQuantization{
				Type: pb.QuantizationType_Int8, Quantile: pb.PtrOf(float32(0.99)), AlwaysRam: pb.PtrOf(true),
			}),
		}
	}
	return &pb.CreateCollection{
		CollectionName: c.collectionFor(database, m), VectorsConfig: pb.NewVectorsConfigMap(vectors), OnDiskPayload: pb.PtrOf(true),
		Metadata: pb.NewValueMap(map[string]any{
			metaDatabase: database, metaID: uuid.NewString(), metaModel: m.Name, metaLength: m.Length,
		}),
	}
}

// pointAlias moves the alias to a collection atomically.
func (c collections) pointAlias(ctx context.Context, collection string) error {
	_, err := client.Call(ctx, c.server, func(ctx context.Context, p *pb.Client) (struct{}, error) {
		return struct{}{}, p.UpdateAliases(ctx, []*pb.AliasOperations{pb.NewAliasDelete(c.alias), pb.NewAliasCreate(c.alias, collection)})
	})
	return err
}
