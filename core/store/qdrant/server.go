package qdrant

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/metadata"
)

const (
	// messageLimit bounds an answer in bytes: a search reads many protocols.
	messageLimit = 512 << 20
	// connections to the server, so that a long transfer does not delay searches.
	connections = 2
)

// server is the connection to one Qdrant server and the names of the collections
// on it.
type server struct {
	options Options
	at      endpoint
	client  *pb.Client
	names   names
	log     *slog.Logger

	closing  context.Context // ends with the store
	stop     context.CancelFunc
	closed   sync.Once
	closeErr error          // of the first close
	work     sync.WaitGroup // of what runs in the background

	ready atomic.Bool // the collections are there
}

func connect(o Options, version int, log *slog.Logger) (*server, error) {
	at, err := o.endpoint()
	if err != nil {
		return nil, err
	}
	client, err := dial(o, at, log)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &server{options: o, at: at, client: client, names: names{o.Collection, version}, log: log}
	s.closing, s.stop = context.WithCancel(context.Background())
	return s, nil
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

func (s *server) close() error {
	s.closed.Do(func() {
		s.stop()
		s.work.Wait()
		s.closeErr = s.client.Close()
	})
	return s.closeErr
}
