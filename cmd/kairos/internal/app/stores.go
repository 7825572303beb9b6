package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/logins"
	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/outlines"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/replicas"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/sessions"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/former"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/core/store/tables"
	"github.com/kairos-mcp/kairos/core/tokens"
	"github.com/kairos-mcp/kairos/core/usecases"
)

// Database keeps protocols and runs. Its parts are safe for concurrent use.
type Database struct {
	Protocols protocolStore
	Runs      runStore
	Archive   archive.RunArchive
	People    peopleStore
	Spaces    spaceStore
	Sessions  sessions.Store
	Tokens    tokens.Store
	Logins    logins.Store
	Files     archive.Files  // nil: the server of the database returns free space by itself
	Servers   replicas.Store // nil: no other servers share the database
	checks
}

type protocolStore interface {
	library.Protocols
	library.ProtocolWriter
	library.ProtocolHistory
	library.Changes
	library.Vectors
	library.Ratings
	index.Outbox
}

type runStore interface {
	runs.Runs
	runs.Index
	runs.History
	archive.Eraser
}

type peopleStore interface {
	declines.Store
	acceptances.Store
}

type checks interface {
	// Check reports why the database cannot be used, and CheckWrite also why
	// nothing could be stored.
	Check() error
	CheckWrite(ctx context.Context) error
	// QuickCheck returns the damage that little time finds, and Integrity all of it.
	QuickCheck(ctx context.Context) (damages []string, err error)
	Integrity(ctx context.Context) (damages []string, err error)
	Close() error
}

// openStores opens the database and the index, if there is one.
func openStores(c config.Config, missing tables.Missing, log *slog.Logger) (*Database, *Index, error) {
	database, err := openDatabase(c, missing, log)
	if err != nil || !c.Qdrant.On() {
		return database, nil, err
	}
	o, err := c.Qdrant.Options()
	if err != nil {
		return nil, nil, errors.Join(err, database.Close())
	}
	server, err := qdrant.New(o, log)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("qdrant: %w", err), database.Close())
	}
	return database, &Index{index.New(database.Protocols, server, log), server, database.Protocols}, nil
}

// openDatabase opens the database.
func openDatabase(c config.Config, missing tables.Missing, log *slog.Logger) (*Database, error) {
	if c.Database.Postgres() {
		s, err := postgres.OpenWith(c.Database.Address(), missing, log)
		if err != nil {
			return nil, err
		}
		return &Database{Protocols: s.Protocols, Runs: s.Runs, Archive: s.Archive, People: s.People, Spaces: s.Spaces, Sessions: s.Sessions, Tokens: s.Tokens, Logins: s.Logins, Servers: s.Servers, checks: s}, nil
	}
	s, err := sqlite.OpenWith(c.Database.Address(), sqlite.Limits{}, missing, log)
	if err != nil {
		return nil, err
	}
	return &Database{Protocols: s.Protocols, Runs: s.Runs, Archive: s.Archive, People: s.People, Spaces: s.Spaces, Sessions: s.Sessions, Tokens: s.Tokens, Logins: s.Logins, Files: s.Archive, checks: s}, nil
}

// engineStore puts the engine's store together.
func (a *App) engineStore() usecases.Store {
	protocols, kept, people := a.Store.Protocols, a.Store.Runs, a.Store.People
	found := outlines.New(protocols, a.table, a.log)
	s := usecases.Store{
		Protocols: protocols, Writer: protocols, Versions: protocols, Searcher: found, Vectors: protocols, Ratings: protocols,
		Runs: kept, Index: kept, Archive: a.Store.Archive, History: kept, Eraser: kept, Files: a.Store.Files, Declines: people, Acceptances: people,
	}
	if a.Index != nil {
		found.Asking(a.Index.Feeder, outlines.Many)
	}
	return s
}

// Protocols counts the protocols in all spaces of Caller.
func (a *App) Protocols(ctx context.Context) (n int, err error) {
	for _, space := range a.Caller().Spaces() {
		in, err := a.Store.Protocols.Count(ctx, space)
		if err != nil {
			return n, fmt.Errorf("count the protocols of space %s: %w", space, err)
		}
		n += in
	}
	return n, nil
}

// closeStores closes both.
func (a *App) closeStores() error {
	if a.Index == nil {
		return a.Store.Close()
	}
	return errors.Join(a.Index.server.Close(), a.Store.Close())
}

// Backup copies a SQLite database into a new file and returns its size. Servers may
// write meanwhile.
func Backup(ctx context.Context, from config.Database, path string) (size int64, err error) {
	if from.Postgres() {
		return 0, fmt.Errorf("the database is on a PostgreSQL server, whose tools copy it while servers run: pg_dump --format custom --file %s '%s'", path, from)
	}
	if !DatabaseExists(from) {
		return 0, NoDatabase(from)
	}
	s, err := sqlite.Open(from.Address(), nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Backup(ctx, path)
}

// Moved counts what Migrate has moved.
type Moved = postgres.Loaded

// Migrate copies everything of a SQLite file into an empty PostgreSQL database.
// progress is called now and then. The file is not changed, except that the schema of an
// older version is updated first.
func Migrate(ctx context.Context, from, to config.Database, progress func(Moved)) (moved Moved, err error) {
	if from.Postgres() {
		return moved, errors.New("database is a PostgreSQL address already: pg_dump and pg_restore move it")
	}
	if !to.Postgres() {
		return moved, errors.New("--to must be the address of an empty PostgreSQL database: postgres://USER@HOST/NAME")
	}
	source, err := sqlite.OpenWith(from.Address(), sqlite.Limits{}, missing(Options{}, from), nil)
	if err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := postgres.Open(to.Address(), nil)
	if err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := target.Check(); err != nil {
		return moved, err
	}
	return target.Load(ctx, source.Rows(ctx), progress)
}

// Index is an index of the protocols on a Qdrant server, and what feeds it. A nil
// Index is that of a server without one.
type Index struct {
	Feeder   *index.Feeder
	server   *qdrant.Index
	database index.Outbox
}

// indexProbe bounds how long the server of the index may take to answer something
// small.
const indexProbe = 800 * time.Millisecond

// Release removes the index that is there, whatever database it was made from.
func (x *Index) Release(ctx context.Context) error { return x.server.Release(ctx) }

// Usable reports whether the index can be used, if there is one.
func (x *Index) Usable(ctx context.Context) error {
	if x == nil {
		return nil
	}
	// Opening the database can take longer than the probe, and is not its concern.
	if _, err := x.database.DatabaseID(ctx); err != nil {
		return err
	}
	return x.probe(ctx, (*index.Feeder).Check)
}

// indexWait is how long a person waits to hear that the server of the index is down.
const indexWait = 1500 * time.Millisecond

// Reachable reports that the server of the index does not answer. Whether the index is that
// of this database is not looked at.
func (x *Index) Reachable(ctx context.Context) error {
	if _, err := x.database.DatabaseID(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, indexWait)
	defer cancel()
	err := x.Feeder.Check(ctx)
	f := fault.New(fault.StoreUnavailable, "%s does not answer", x.Feeder.Location())
	if !errors.Is(err, context.DeadlineExceeded) && (!errors.As(err, &f) || f.Code != fault.StoreUnavailable) {
		return nil
	}
	return f.WithHint("%s", IndexFix)
}

// IndexFix is what to do about an index that cannot be used.
const IndexFix = "start Qdrant, or correct the section qdrant of the configuration; nothing is lost meanwhile"

// answers reports why the index is not up to date or does not answer.
func (x *Index) answers(ctx context.Context) error { return x.probe(ctx, (*index.Feeder).Health) }

// probe asks within indexProbe. Without an index nothing is wrong.
func (x *Index) probe(ctx context.Context, ask func(*index.Feeder, context.Context) error) error {
	if x == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, indexProbe)
	defer cancel()
	return ask(x.Feeder, ctx)
}

// checkOwner refuses to start beside an index that belongs to something else: its
// protocols would seem to be gone. A server that does not answer is checked later.
func (x *Index) checkOwner(ctx context.Context) error {
	if err := x.Usable(ctx); fault.CodeOf(err) == fault.Conflict {
		return err
	}
	return nil
}

// tableOf returns a function that returns the configured table of word vectors, or nil. The
// function is nil where no table is used. Loading has checked a file, so only one that
// changed since then is missed.
func tableOf(c config.EmbeddingConfig, log *slog.Logger) func() *meaning.Table {
	if !c.UsesTable() {
		return nil
	}
	return sync.OnceValue(func() *meaning.Table {
		table, err := c.ReadTable()
		if err != nil {
			log.Error("texts are compared by words alone, because embedding.table cannot be read", "error", err)
		}
		return table
	})
}

// Embedder returns the configured endpoint, which is not asked yet, or nil.
func Embedder(c config.EmbeddingConfig, observer embedding.Observer, log *slog.Logger) (library.Embedder, error) {
	if !c.Endpoint() {
		return nil, nil
	}
	key, err := c.Key()
	if err != nil {
		return nil, err
	}
	cfg := c.Client(key)
	cfg.Observer = observer
	if cfg.Exposed() {
		log.Warn("the key of the embedding endpoint crosses the network in the clear; use https", "url", c.URL)
	}
	client, err := embedding.New(cfg, log)
	if err != nil {
		return nil, fmt.Errorf("embedding: %w", err)
	}
	return client, nil
}

// formerBuiltin begins the UUIDs of the protocols that every server brings along.
const formerBuiltin = "00000000-0000-0000-0000-"

// FormerProtocols passes the protocols that the earlier server kept in a collection to
// take, except the built-in ones. problems are its broken points, which do not stop the
// rest.
func (a *App) FormerProtocols(ctx context.Context, url, collection string, take func(title string, item *library.ImportItem)) (problems []string, err error) {
	q := a.Config.Qdrant
	q.URL = url
	o, err := q.Options()
	if err != nil {
		return nil, err
	}
	var items []former.Protocol
	report, err := former.Read(ctx, former.Options{Options: o.Options, Collection: collection}, func(p former.Protocol) error {
		if !strings.HasPrefix(p.Chain.Steps[0].UUID, formerBuiltin) {
			items = append(items, p)
		}
		return nil
	})
	for _, p := range report.Problems {
		problems = append(problems, fmt.Sprintf("collection %s, point %s: %s", report.Collection, p.Point, p.Problem))
	}
	if err != nil {
		return problems, fmt.Errorf("read the protocols in Qdrant: %w", err)
	}
	for _, p := range items {
		take(p.Chain.Title, formerItem(p))
	}
	return problems, nil
}

// formerItem is a protocol as a document, with its identities and ratings if the
// document has the same steps.
func formerItem(p former.Protocol) *library.ImportItem {
	item := &library.ImportItem{Document: protocol.Render(p.Chain), Record: recordOfFormer(p.Chain)}
	if item.Record != nil {
		item.Record.Quality = p.Quality
	}
	return item
}

// recordOfFormer returns the record of a chain, or nil if its document would have other steps.
// The spaces of the earlier server mean nothing here.
func recordOfFormer(chain protocol.Chain) *library.Record {
	parsed, _ := protocol.Parse([]byte(protocol.Render(chain))) // what is wrong with it the import reports
	if len(parsed) != 1 || len(parsed[0].Steps) != len(chain.Steps) {
		return nil
	}
	chain.ID, chain.Title = parsed[0].ID, parsed[0].Title
	chain.Space = ""
	steps := make([]protocol.Step, len(chain.Steps))
	for i, step := range chain.Steps {
		step.Name = parsed[0].Steps[i].Name
		steps[i] = step
	}
	chain.Steps = steps
	record := library.RecordOf(chain)
	return &record
}
