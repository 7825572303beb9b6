// Package former reads protocols that the earlier KAIROS server kept on a Qdrant
// server. It changes nothing there.
package former

import (
	"cmp"
	"context"
	"fmt"
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
	// Collection to read, or an alias of it; empty: the first of those that the earlier
	// server used.
	Collection string
}

// Report summarises a reading.
type Report struct {
	Collection string // or the alias by which it was found
	Points     int
	Protocols  int
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
	return report, readEarlier(ctx, c, &report, each)
}

// find finds the collection, or the alias, to read.
func find(ctx context.Context, c *client.Client, o Options) (string, error) {
	names := earlierCollections
	if o.Collection != "" {
		names = []string{o.Collection}
	}
	for _, name := range names {
		there, err := c.Exists(ctx, name)
		if err != nil {
			return "", err
		}
		if there {
			return name, notIndex(ctx, c, name)
		}
	}
	return "", fault.New(fault.NotFound, "Qdrant at %s has no collection %s", c.Address(), strings.Join(names, " or ")).
		WithHint("name the collection with --collection")
}

// notIndex refuses a collection that is the index of a database.
func notIndex(ctx context.Context, c *client.Client, name string) error {
	info, err := client.Call(ctx, c, func(ctx context.Context, p *pb.Client) (*pb.CollectionInfo, error) {
		return p.GetCollectionInfo(ctx, name)
	})
	if err == nil && info.GetConfig().GetMetadata()["kairos_database"].GetStringValue() != "" {
		err = fault.New(fault.InvalidArgument, "collection %q is the index of a database, which has all its protocols", name).
			WithHint("to move them to another database, use kairos protocols export and kairos import")
	}
	return err
}

// pointSpace is the namespace of the UUIDs that this program gives to steps.
var pointSpace = uuid.MustParse("5a3f4a55-1c62-4f0e-9d5b-3c0a7f1f6b2e")

func keyOf(id *pb.PointId) string { return cmp.Or(id.GetUuid(), fmt.Sprint(id.GetNum())) }
