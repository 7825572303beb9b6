package client

import (
	"context"

	pb "github.com/qdrant/go-client/qdrant"
)

// pageSize is how many points Each reads at once; one may be a large protocol.
const pageSize = 256

// Each reads all points of a collection that match, page by page.
func (c *Client) Each(ctx context.Context, collection string, f *pb.Filter, payload *pb.WithPayloadSelector, do func(*pb.RetrievedPoint) error) error {
	var offset *pb.PointId
	for {
		var next *pb.PointId
		points, err := Call(ctx, c, func(ctx context.Context, p *pb.Client) (points []*pb.RetrievedPoint, err error) {
			points, next, err = p.ScrollAndOffset(ctx, &pb.ScrollPoints{
				CollectionName: collection, Filter: f, Limit: pb.PtrOf(uint32(pageSize)), Offset: offset, WithPayload: payload,
			})
			return points, err
		})
		if err != nil {
			return err
		}
		for _, point := range points {
			if err := do(point); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		offset = next
	}
}

// Get reads points by id; those that are not there are left out.
func (c *Client) Get(ctx context.Context, collection string, ids []*pb.PointId, payload *pb.WithPayloadSelector, vectors *pb.WithVectorsSelector) ([]*pb.RetrievedPoint, error) {
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	return Call(ctx, c, func(ctx context.Context, p *pb.Client) ([]*pb.RetrievedPoint, error) {
		return p.Get(ctx, &pb.GetPoints{CollectionName: collection, Ids: ids, WithPayload: payload, WithVectors: vectors})
	})
}

// Target returns the collection behind an alias; "": there is no such alias.
func (c *Client) Target(ctx context.Context, alias string) (string, error) {
	aliases, err := Call(ctx, c, func(ctx context.Context, p *pb.Client) ([]*pb.AliasDescription, error) { return p.ListAliases(ctx) })
	if err != nil {
		return "", err
	}
	for _, a := range aliases {
		if a.GetAliasName() == alias {
			return a.GetCollectionName(), nil
		}
	}
	return "", nil
}

// Exists reports whether there is a collection with exactly this name, or an alias.
func (c *Client) Exists(ctx context.Context, name string) (bool, error) {
	return Call(ctx, c, func(ctx context.Context, p *pb.Client) (bool, error) { return p.CollectionExists(ctx, name) })
}
