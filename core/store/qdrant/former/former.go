// Package former reads protocols that older programs kept on a Qdrant server: the
// earlier KAIROS server, and older versions of this program. It changes nothing
// there.
package former

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
)

// earlierCollections are the collection names of the earlier server.
var earlierCollections = []string{"kairos", "kb_resources"}

// Options locate the protocols.
type Options struct {
	client.Options
	// Collection to read, or an alias of it; empty: Usual, or the first of those that
	// the earlier server used.
	Collection string
	// Usual is looked for first where Collection is empty.
	Usual string
}

// Report summarises a reading.
type Report struct {
	Collection string // or the alias by which it was found
	Own        bool   // an older version of this program has written it
	Points     int
	Protocols  int
	Deleted    int // protocols of which only the history is left, which is not read
	// Problems lists points and chains that were left out or are incomplete.
	Problems []Problem
}

// Problem is a problem with a point or chain.
type Problem struct {
	Point   string // id
	Problem string
}

func (r *Report) problem(point, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{point, fmt.Sprintf(format, args...)})
}

// Protocol is a protocol with what is known of it.
type Protocol struct {
	Chain   protocol.Chain
	Quality map[string]api.Quality // by step UUID, of the steps that were rated
	Older   []protocol.Chain       // earlier versions, oldest first
}

// Read reads the protocols of a collection, and calls each for every one; its error
// ends the reading. Broken points are reported and left out.
func Read(ctx context.Context, o Options, each func(Protocol) error) (report Report, err error) {
	c, err := client.New(o.Options, nil)
	if err != nil {
		return report, err
	}
	defer func() { _ = c.Close() }() // nothing was written
	if report.Collection, err = find(ctx, c, o); err != nil {
		return report, err
	}
	if report.Own, err = isOwn(ctx, c, report.Collection); err != nil {
		return report, err
	}
	if report.Own {
		return report, readOwn(ctx, c, &report, each)
	}
	return report, readEarlier(ctx, c, &report, each)
}

// find finds the collection, or the alias, to read.
func find(ctx context.Context, c *client.Client, o Options) (string, error) {
	names := slices.DeleteFunc(append([]string{o.Usual}, earlierCollections...), func(name string) bool { return name == "" })
	if o.Collection != "" {
		names = []string{o.Collection}
	}
	for _, name := range names {
		there, err := c.Exists(ctx, name)
		if err != nil {
			return "", err
		}
		if there {
			return behindIndex(ctx, c, name)
		}
	}
	return "", fault.New(fault.NotFound, "Qdrant at %s has no collection %s", c.Address(), strings.Join(names, " or ")).
		WithHint("name the collection with --collection")
}

// behindIndex returns the collection to read if an index has taken over the name.
func behindIndex(ctx context.Context, c *client.Client, name string) (string, error) {
	info, err := client.Call(ctx, c, func(ctx context.Context, p *pb.Client) (*pb.CollectionInfo, error) {
		return p.GetCollectionInfo(ctx, name)
	})
	if err != nil || info.GetConfig().GetMetadata()["kairos_database"].GetStringValue() == "" {
		return name, err
	}
	former := name + "_v1"
	there, err := c.Exists(ctx, former)
	if err == nil && !there {
		err = fault.New(fault.InvalidArgument, "collection %q is the index of a database, which has all its protocols", name).
			WithHint("to move them to another database, use kairos export and kairos import")
	}
	return former, err
}

// pointSpace is the namespace of the ids of points of this program.
var pointSpace = uuid.MustParse("5a3f4a55-1c62-4f0e-9d5b-3c0a7f1f6b2e")

// pointID is a deterministic id for the parts.
func pointID(parts ...string) *pb.PointId {
	return pb.NewID(uuid.NewSHA1(pointSpace, []byte(strings.Join(parts, "\n"))).String())
}

func keyOf(id *pb.PointId) string { return cmp.Or(id.GetUuid(), fmt.Sprint(id.GetNum())) }
