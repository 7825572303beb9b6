// Package driverrpc carries the driver vocabulary over gRPC: Main serves a
// driver.Driver as a plugin process, Client calls one. It is the only package
// that sees the generated types, and its converters hold no logic.
package driverrpc

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

const (
	// ProtocolVersion is the version of the contract that this package speaks.
	ProtocolVersion = 1
	// MaxMessageBytes is the largest message either end accepts or sends.
	MaxMessageBytes = 16 << 20
	// PluginName is the key of the driver in Plugins.
	PluginName = "driver"
	// DescribeFlag makes a driver binary print its descriptor and exit.
	DescribeFlag = "--describe"
	// CallFlag makes a driver binary answer one call and exit: the name of a
	// method follows, the request is on stdin, the result goes to stdout.
	CallFlag = "--call"
	// DebugFlag makes a driver binary serve a host in dev mode that attaches
	// to it; see AttachEnv.
	DebugFlag = "--debug"
	// ConfigEnv is the environment variable with the configuration, as JSON,
	// of a process that answers one call.
	ConfigEnv = "KAIROS_DRIVER_CONFIG"
	// AttachEnv is the environment variable that tells a host in dev mode
	// which running drivers to attach to; see ParseAttachments.
	AttachEnv = "KAIROS_DRIVER_ATTACH"
	// TraceEnv is the environment variable with the W3C traceparent of a
	// process that answers one call.
	TraceEnv = "TRACEPARENT"

	cookieKey   = "KAIROS_DRIVER_COOKIE"
	cookieValue = "c4f4ef2f-6f3c-4bb4-9e43-3e0c76a3f3bd"
)

// Handshake is what host and driver must agree on before they talk.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   cookieKey,
		MagicCookieValue: cookieValue,
	}
}

// Plugins is the host's plugin set: dispensing PluginName gives a *Client.
func Plugins() plugin.PluginSet { return plugin.PluginSet{PluginName: grpcPlugin{}} }

// window is how many bytes either end may send before the other has taken
// them. One that is set is not measured: measuring it sends a ping and its
// answer with every call, twice, and wakes both processes for each.
const window = MaxMessageBytes

// DialOptions are the host's limits on a connection to a driver. The
// connection never goes idle: a generation has one connection for its life.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(MaxMessageBytes),
			grpc.MaxCallSendMsgSize(MaxMessageBytes),
		),
	}
}

// grpcPlugin is the host's glue that go-plugin asks for; it ignores the broker.
type grpcPlugin struct {
	plugin.NetRPCUnsupportedPlugin
}

func (grpcPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("a driver is served by Main")
}

func (grpcPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, cc *grpc.ClientConn) (any, error) {
	return NewClient(cc), nil
}
