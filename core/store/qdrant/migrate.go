package qdrant

import (
	"context"

	pb "github.com/qdrant/go-client/qdrant"
)

// migrations convert points from one schema version to the next: the first one
// from version 1 to 2, and so on. Each gets every point of the protocols'
// collection, except the points of steps, and returns it in the form of the next
// version; nil drops it. It may be called again for the same point.
type migrations []func(*pb.PointStruct) (*pb.PointStruct, error)

// released are the migrations of this program. The layout of version 1 is the
// first that was released.
var released = migrations{}

// version is the resulting version.
func (m migrations) version() int { return 1 + len(m) }

// apply converts a point to the newest version.
func (m migrations) apply(p *pb.PointStruct, from int) (*pb.PointStruct, error) {
	for _, step := range m[from-1:] {
		var err error
		if p, err = step(p); err != nil || p == nil {
			return nil, err
		}
	}
	return p, nil
}

// migrationPage is how many points are copied at once; one may be a large protocol.
const migrationPage = 64

// migrate copies the protocols into a collection of this program's version, and
// then moves the alias there. Until then nothing changes for other programs; an
// interrupted migration is repeated. The old collection stays unchanged. Programs
// that use it stop as soon as they detect the new alias, which takes a few
// seconds: what they store meanwhile is not migrated.
func (c *schema) migrate(ctx context.Context, from int) error {
	n := c.server.names
	old := n.ofVersion(from)
	c.server.log.InfoContext(ctx, "protocols are copied into the layout of this version", "qdrant", c.server.at.String(), "from", old, "to", n.protocols())
	if err := c.createEmpty(ctx); err != nil {
		return err
	}
	copied := 0
	// The points of steps and their mark are made again.
	f := &pb.Filter{MustNot: []*pb.Condition{in(fieldKind, []string{kindStep, kindShown})}}
	var offset *pb.PointId
	for {
		var next *pb.PointId
		points, err := call(ctx, c.server, func(ctx context.Context) ([]*pb.RetrievedPoint, error) {
			var points []*pb.RetrievedPoint
			var err error
			points, next, err = c.server.client.ScrollAndOffset(ctx, &pb.ScrollPoints{
				CollectionName: old, Filter: f, Limit: pb.PtrOf(uint32(migrationPage)), Offset: offset,
				WithPayload: pb.NewWithPayload(true), ReadConsistency: newest,
			})
			return points, err
		})
		if err != nil {
			return err
		}
		if err := c.copyMigrated(ctx, points, from); err != nil {
			return err
		}
		if copied += len(points); next == nil {
			break
		}
		offset = next
	}
	if err := c.server.pointAlias(ctx, n.alias(), n.protocols()); err != nil {
		return err
	}
	c.server.log.InfoContext(ctx, "protocols were copied", "qdrant", c.server.at.String(), "collection", n.protocols(), "points", copied, "left_as_it_was", old)
	return nil
}

// copyMigrated writes points in their new form, but not over newer ones: another
// process may have finished the same migration meanwhile.
func (c *schema) copyMigrated(ctx context.Context, points []*pb.RetrievedPoint, from int) error {
	var out []*pb.PointStruct
	for _, p := range points {
		next, err := c.migrations.apply(&pb.PointStruct{Id: p.GetId(), Vectors: noVectors(), Payload: p.GetPayload()}, from)
		if err != nil {
			return c.server.damaged(p.GetId().GetUuid(), err)
		}
		if next != nil {
			next.Payload[fieldCopied] = number(int64(from))
			out = append(out, next)
		}
	}
	for _, op := range upserts(all(pb.NewMatchInt(fieldCopied, int64(from))), out) {
		if err := c.server.update(ctx, c.server.names.protocols(), op.op); err != nil {
			return err
		}
	}
	return nil
}
