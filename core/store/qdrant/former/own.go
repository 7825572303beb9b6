package former

import (
	"context"
	"encoding/json"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
)

// An older version of this program stored a manifest for each protocol,
// a version point for each earlier version, found by the token of the save that
// wrote it, and the rating of each step.
const (
	kindManifest = "manifest"
	kindDeleted  = "deleted"
	kindVersion  = "version"
	kindRating   = "rating"
)

func ofKind(kinds ...string) *pb.Filter {
	return &pb.Filter{Must: []*pb.Condition{pb.NewMatchKeywords("kind", kinds...)}}
}

func count(ctx context.Context, c *client.Client, collection string, f *pb.Filter) (int, error) {
	n, err := client.Call(ctx, c, func(ctx context.Context, p *pb.Client) (uint64, error) {
		return p.Count(ctx, &pb.CountPoints{CollectionName: collection, Filter: f, Exact: pb.PtrOf(true)})
	})
	return int(n), err //nolint:gosec // a number of points
}

// isOwn reports whether an older version of this program has written the
// collection.
func isOwn(ctx context.Context, c *client.Client, collection string) (bool, error) {
	n, err := count(ctx, c, collection, ofKind(kindManifest, kindDeleted))
	return n > 0, err
}

// revision is an entry of the history of a manifest, the newest one first.
type revision struct {
	Number  int64  `json:"revision"`
	Token   string `json:"token"`
	Deleted bool   `json:"deleted"`
}

func readOwn(ctx context.Context, c *client.Client, r *Report, each func(Protocol) error) (err error) {
	if r.Points, err = count(ctx, c, r.Collection, nil); err != nil {
		return err
	}
	if r.Deleted, err = count(ctx, c, r.Collection, ofKind(kindDeleted)); err != nil {
		return err
	}
	return c.Each(ctx, r.Collection, ofKind(kindManifest), pb.NewWithPayloadInclude("document", "log", "revision"), func(p *pb.RetrievedPoint) error {
		chain, history, err := manifest(p)
		if err != nil {
			r.problem(keyOf(p.GetId()), "it is damaged: %v", err)
			return nil
		}
		found := Protocol{Chain: chain}
		if found.Older, err = older(ctx, c, r, keyOf(p.GetId()), chain, history); err != nil {
			return err
		}
		if found.Quality, err = ratings(ctx, c, r, chain); err != nil {
			return err
		}
		r.Protocols++
		return each(found)
	})
}

func manifest(p *pb.RetrievedPoint) (chain protocol.Chain, history []revision, err error) {
	v := p.GetPayload()
	if err := json.Unmarshal([]byte(v["document"].GetStringValue()), &chain); err != nil {
		return chain, nil, err
	}
	chain.Revision = integer(v["revision"])
	if log := v["log"].GetStringValue(); log != "" {
		err = json.Unmarshal([]byte(log), &history)
	}
	return chain, history, err
}

// older reads the earlier versions of a protocol.
func older(ctx context.Context, c *client.Client, r *Report, key string, chain protocol.Chain, history []revision) ([]protocol.Chain, error) {
	var all []protocol.Chain
	for i := len(history) - 1; i >= 0; i-- {
		h := history[i]
		if h.Deleted || h.Number >= chain.Revision {
			continue
		}
		found, err := c.Get(ctx, r.Collection, []*pb.PointId{pointID(kindVersion, h.Token, key)}, pb.NewWithPayloadInclude("document"), nil)
		if err != nil {
			return nil, err
		}
		var version protocol.Chain
		if len(found) != 1 || json.Unmarshal([]byte(found[0].GetPayload()["document"].GetStringValue()), &version) != nil {
			r.problem(key, "protocol %q: revision %d cannot be read; it is left out", chain.Title, h.Number)
			continue
		}
		version.Revision = h.Number
		all = append(all, version)
	}
	return all, nil
}

// ratings reads the ratings of the steps.
func ratings(ctx context.Context, c *client.Client, r *Report, chain protocol.Chain) (map[string]api.Quality, error) {
	ids := make([]*pb.PointId, len(chain.Steps))
	for i, step := range chain.Steps {
		ids[i] = pointID(kindRating, chain.Space, step.UUID)
	}
	found, err := c.Get(ctx, r.Collection, ids, pb.NewWithPayloadInclude("memory_uuid", "quality"), nil)
	if err != nil {
		return nil, err
	}
	all := make(map[string]api.Quality, len(found))
	for _, p := range found {
		var q api.Quality
		v := p.GetPayload()
		if err := json.Unmarshal([]byte(v["quality"].GetStringValue()), &q); err != nil {
			r.problem(keyOf(p.GetId()), "the rating of a step of %q cannot be read; it is left out", chain.Title)
			continue
		}
		all[v["memory_uuid"].GetStringValue()] = q
	}
	return all, nil
}
