// Command bare is a challenge driver that does not use the SDK's server, as a driver in
// another language. The file that BARE_FILE names says how it serves the stream of calls.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/kairos-mcp/kairos/sdk/driverpb"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

func main() {
	if slices.Contains(os.Args, driverrpc.DescribeFlag) {
		fmt.Println(`{"name":"bare","version":"1.0.0","role":"challenge","handles":["bare"],"effect":"reads"}`)
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the lifeline
		os.Exit(0)
	}()
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: driverrpc.Handshake(),
		Plugins:         plugin.PluginSet{driverrpc.PluginName: &bare{}},
		GRPCServer:      plugin.DefaultGRPCServer,
	})
}

type bare struct {
	plugin.NetRPCUnsupportedPlugin
	driverpb.UnimplementedDriverServiceServer
	driverpb.UnimplementedChallengeServiceServer
	driverpb.UnimplementedStreamServiceServer
	mode string
}

// GRPCServer implements plugin.GRPCPlugin.
func (b *bare) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	mode, err := os.ReadFile(os.Getenv("BARE_FILE"))
	b.mode = string(mode)
	driverpb.RegisterDriverServiceServer(s, b)
	driverpb.RegisterChallengeServiceServer(s, b)
	if b.mode != "unary" {
		driverpb.RegisterStreamServiceServer(s, b)
	}
	return err
}

// GRPCClient implements plugin.GRPCPlugin.
func (*bare) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is a driver")
}

func (*bare) Describe(context.Context, *driverpb.DescribeRequest) (*driverpb.DescribeResponse, error) {
	return &driverpb.DescribeResponse{
		Name: "bare", Version: "1.0.0", Role: driverpb.Role_ROLE_CHALLENGE, Handles: []string{"bare"}, Effect: driverpb.Effect_EFFECT_READS,
	}, nil
}

func (*bare) Configure(context.Context, *driverpb.ConfigureRequest) (*driverpb.ConfigureResponse, error) {
	return &driverpb.ConfigureResponse{}, nil
}

func (*bare) CheckHealth(context.Context, *driverpb.CheckHealthRequest) (*driverpb.CheckHealthResponse, error) {
	return &driverpb.CheckHealthResponse{Healthy: true}, nil
}

func (*bare) Advance(context.Context, *driverpb.AdvanceRequest) (*driverpb.AdvanceResponse, error) {
	return accepted("unary"), nil
}

func accepted(by string) *driverpb.AdvanceResponse {
	proof := []byte(fmt.Sprintf("%q", by))
	return &driverpb.AdvanceResponse{Outcome: &driverpb.AdvanceResponse_Accepted{Accepted: &driverpb.Accepted{Proof: proof}}}
}

// Calls answers in the order of the calls, as far as the mode lets it.
func (b *bare) Calls(stream grpc.BidiStreamingServer[driverpb.CallsRequest, driverpb.CallsResponse]) error {
	if b.mode == "silent" {
		<-stream.Context().Done()
		return nil
	}
	if err := stream.Send(&driverpb.CallsResponse{MaxCalls: 8}); err != nil {
		return err
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		if r.GetCancel() {
			continue
		}
		if strings.HasSuffix(r.GetMethod(), "/Advance") {
			switch b.mode {
			case "ends":
				return nil
			case "stops reading":
				<-stream.Context().Done()
				return nil
			case "floods":
				return flood(stream)
			}
		}
		reply, err := proto.Marshal(b.reply(stream.Context(), path.Base(r.GetMethod())))
		if err == nil {
			err = stream.Send(&driverpb.CallsResponse{Id: r.GetId(), Reply: reply})
		}
		if err != nil {
			return err
		}
	}
}

func (b *bare) reply(ctx context.Context, method string) (m proto.Message) {
	switch method {
	case "Describe":
		m, _ = b.Describe(ctx, nil)
	case "Configure":
		m, _ = b.Configure(ctx, nil)
	case "CheckHealth":
		m, _ = b.CheckHealth(ctx, nil)
	case "Advance":
		m = accepted("streamed")
	}
	return m
}

// flood replies to calls that nobody has made.
func flood(stream grpc.BidiStreamingServer[driverpb.CallsRequest, driverpb.CallsResponse]) error {
	for id := uint64(1 << 40); ; id++ {
		if err := stream.Send(&driverpb.CallsResponse{Id: id, Reply: make([]byte, 60<<10), More: true}); err != nil {
			return err
		}
	}
}
