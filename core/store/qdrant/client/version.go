package client

import (
	"context"
	"slices"
	"strconv"
	"strings"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
)

// oldestServer has conditional upserts and metadata of collections.
const oldestServer = "1.16"

// CheckVersion rejects a server without the required features.
func (c *Client) CheckVersion(ctx context.Context) error {
	reply, err := Call(ctx, c, func(ctx context.Context, p *pb.Client) (*pb.HealthCheckReply, error) { return p.HealthCheck(ctx) })
	if err != nil {
		return err
	}
	if older(reply.GetVersion(), oldestServer) {
		return fault.New(fault.StoreFailed, "Qdrant at %s is version %s: version %s or newer is needed", c.at, reply.GetVersion(), oldestServer)
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
