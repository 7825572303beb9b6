// Package client speaks to a Qdrant server: connection, repetition and errors that
// say what the operator can do. It knows nothing of what is stored there.
package client

import (
	"context"
	"log/slog"
	"sync"
	"time"

	pb "github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/metadata"
)

const (
	// messageLimit bounds an answer in bytes.
	messageLimit = 512 << 20
	// connections to the server, so that a long transfer does not delay searches.
	connections = 2
)

// Client is the connection to one server. Its methods may be called concurrently.
type Client struct {
	at      endpoint
	timeout time.Duration
	points  *pb.Client

	closing  context.Context // ends with the client
	stop     context.CancelFunc
	closed   sync.Once
	closeErr error // of the first close
}

// New returns a client. It asks nothing of the server before its first call. A nil
// log discards all messages.
func New(o Options, log *slog.Logger) (*Client, error) {
	at, err := o.endpoint()
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	points, err := dial(o, at, log)
	if err != nil {
		return nil, err
	}
	c := &Client{at: at, timeout: o.timeout(), points: points}
	c.closing, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// dial prepares the connections. The first request opens them.
func dial(o Options, at endpoint, log *slog.Logger) (*pb.Client, error) {
	c := &pb.Config{Host: at.host, Port: at.port, UseTLS: at.tls, SkipCompatibilityCheck: true, PoolSize: connections}
	if at.tls {
		var err error
		if c.TLSConfig, err = o.tlsConfig(); err != nil {
			return nil, err
		}
	}
	c.GrpcOptions = []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageLimit), grpc.MaxCallSendMsgSize(messageLimit)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 250 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
	if o.APIKey != "" {
		if !at.tls && !at.loopback() {
			log.Warn("the API key of Qdrant goes over the network unencrypted; use https", "qdrant", at.String())
		}
		c.GrpcOptions = append(c.GrpcOptions, grpc.WithChainUnaryInterceptor(authenticate(o.APIKey)))
	}
	return pb.NewClient(c)
}

// authenticate adds the key to each request. The client's own option would log a
// warning to the global logger.
func authenticate(key Secret) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, "api-key", string(key)), method, req, reply, cc, opts...)
	}
}

// Address is the host and port of the server.
func (c *Client) Address() string { return c.at.String() }

// Close ends the connections. Calls that are under way fail. It may be called
// twice.
func (c *Client) Close() error {
	c.closed.Do(func() {
		c.stop()
		c.closeErr = c.points.Close()
	})
	return c.closeErr
}
