package client

import (
	"context"
	"fmt"
	"slices"
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
	var have, want [2]int
	_, invalid := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &have[0], &have[1])
	_, _ = fmt.Sscanf(than, "%d.%d", &want[0], &want[1])
	return invalid == nil && slices.Compare(have[:], want[:]) < 0
}
