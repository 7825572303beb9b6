package qdrant

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
	// messageLimit bounds an answer, in bytes: a search reads many protocols.
	messageLimit = 512 << 20
	// connections to the server, so that a long transfer does not hold up searches.
	connections = 2
)

// Store keeps protocols on a Qdrant server. Its methods may be called concurrently.
type Store struct {
	options Options
	at      endpoint
	client  *pb.Client
	log     *slog.Logger

	migrations migrations

	closing  context.Context // ends with the store
	close    context.CancelFunc
	closed   sync.Once
	closeErr error          // of the first Close
	work     sync.WaitGroup // of what runs in the background

	schema schemaState
	counts countCache
}

// Open returns a store. It asks nothing of the server before its first call.
func Open(o Options, log *slog.Logger) (*Store, error) { return openWith(o, log, released) }

func openWith(o Options, log *slog.Logger, m migrations) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	at, err := o.endpoint()
	if err != nil {
		return nil, err
	}
	client, err := dial(o, at, log)
	if err != nil {
		return nil, err
	}
	s := &Store{options: o.withDefaults(), at: at, client: client, log: log, migrations: m}
	s.closing, s.close = context.WithCancel(context.Background())
	s.schema.turn = make(chan struct{}, 1)
	return s, nil
}

// dial prepares the connections, which the first request opens.
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

// authenticate shows the key with each request. The client's own way of doing
// so warns on the global logger.
func authenticate(key Secret) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, "api-key", string(key)), method, req, reply, cc, opts...)
	}
}

// Close ends what runs in the background and the connections. Calls that are
// under way fail. It may be called twice.
func (s *Store) Close() error {
	s.closed.Do(func() {
		s.close()
		s.work.Wait()
		s.closeErr = s.client.Close()
	})
	return s.closeErr
}

// Location says where the protocols are, for people.
func (s *Store) Location() string {
	return "Qdrant at " + s.at.String() + ", collection " + s.options.Collection
}

// Check reports whether the server can be used: reachable, new enough, its key
// right, its schema known. It creates nothing.
func (s *Store) Check(ctx context.Context) error {
	if err := s.checkServer(ctx); err != nil {
		return err
	}
	_, err := s.findSchema(ctx)
	return err
}
