package qdrant

import (
	"context"
	"log/slog"
)

// Store keeps protocols on a Qdrant server. Its methods may be called concurrently.
type Store struct {
	server   *server
	schema   *schema
	index    *searchIndex
	chains   chains
	ratings  ratings
	steps    stepPoints
	passages passages
	sweeper  *sweeper
	counts   countCache
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
	server, err := connect(o, m.version(), log)
	if err != nil {
		return nil, err
	}
	s := &Store{
		server: server, index: &searchIndex{server: server}, ratings: ratings{server: server}, passages: passages{server: server},
	}
	s.steps = stepPoints{server: server, ratings: s.ratings}
	s.sweeper = &sweeper{server: server, index: s.index, steps: s.steps}
	s.schema = &schema{server: server, index: s.index, sweeper: s.sweeper, migrations: m, turn: make(chan struct{}, 1)}
	s.chains = chains{server: server, schema: s.schema}
	return s, nil
}

// Close ends what runs in the background and the connections. Calls that are
// under way fail. It may be called twice.
func (s *Store) Close() error { return s.server.close() }

// Location says where the protocols are, for people.
func (s *Store) Location() string {
	return "Qdrant at " + s.server.at.String() + ", collection " + s.server.options.Collection
}

// Check reports whether the server can be used: reachable, new enough, its key
// right, its schema known. It creates nothing.
func (s *Store) Check(ctx context.Context) error {
	if err := s.server.checkServer(ctx); err != nil {
		return err
	}
	_, err := s.schema.findSchema(ctx)
	return err
}
