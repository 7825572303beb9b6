package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/core/sessions"
)

// Questions continues runs after a director.Ask.
type Questions interface {
	// Continue takes the client's reply. A repeat with the same reply returns
	// the recorded round; with another one it is fault.Replayed.
	Continue(ctx context.Context, c access.Caller, in director.Continuation) (director.Round, error)
	// Unanswered is called if the client repeated the call without an answer to a
	// director.Ask: it is asked again, or the call ends without the answer.
	Unanswered(ctx context.Context, c access.Caller, id run.ID, seq int64) (director.Round, error)
	// Waiting returns the reply to a call whose Ask.Wait has passed.
	Waiting(ctx context.Context, c access.Caller, id run.ID, seq int64) (api.StepReply, error)
	// Settled waits until a question is no longer open, wherever it was answered.
	Settled(ctx context.Context, id run.ID, seq int64) error
	// Resumed returns the reply after the pending question was settled.
	Resumed(ctx context.Context, c access.Caller, p director.Pending) (api.StepReply, error)
	Retried(ctx context.Context, c access.Caller, l director.Later) (director.Round, error)
}

// Reminders knows what earlier sessions left.
type Reminders interface {
	// Unfinished returns the caller's newest run that an earlier session left open, or nil.
	// It is called once for each session.
	Unfinished(ctx context.Context, c access.Caller) (*director.Unfinished, error)
}

// Engine lists the use cases that MCP calls.
type Engine interface {
	Runs
	Library
}

// Runs is the use cases about runs. Implemented by *director.Engine.
type Runs interface {
	toolset.Runs
	Questions
	Reminders
}

// Library is the use cases about protocols. Implemented by *library.Library.
type Library interface {
	toolset.Library
	Prompts
}

// UseCases is an Engine of separate values.
type UseCases struct {
	Runs
	Library
}

// Prompts lists the protocols that a caller can start from a menu.
type Prompts interface {
	// Prompts returns a bounded list. No prompt has one of the reserved names.
	Prompts(ctx context.Context, c access.Caller, reserved ...string) ([]api.Prompt, error)
}

var _ Runs = (*director.Engine)(nil)

// Config of a Server. Version, ChallengeTypes, Principal and Space are required.
type Config struct {
	// Version is reported in serverInfo.
	Version string
	// ChallengeTypes returns the present enum of solution.type, in order. It is called
	// often and concurrently, and must return at once.
	ChallengeTypes func() []string
	// FirstCall, if set, is called once, at the first tool call, and must return at
	// once.
	FirstCall func()
	// Principal and Space apply to callers that Identify does not name.
	Principal string
	Space     string
	// Groups, if set, are the further spaces of these callers at the moment of a call.
	Groups func() []string

	// StateKeys returns the keys that open requestState and the ids of HTTP sessions; the
	// first one seals them. It is called at the first use, because a start has no side
	// effects, and again after a failure. Replicas share keys. The
	// default is a random one, valid in this process.
	StateKeys func() ([][32]byte, error)
	// StateTTL is the lifetime of a requestState. The default is 24 h.
	StateTTL time.Duration
	// Clock is the time by which a requestState expires. The default is this machine's.
	Clock *clock.Clock
	// PlainWait is how long a call without a progress token may wait for a
	// person. The default is 50 s, because old clients give up after 60 s.
	PlainWait time.Duration
	// ProgressWait is the same for a call with a progress token. The default is 10 min.
	ProgressWait time.Duration
	// AskAgain is how long after a call the answer to its question may come before the
	// next call asks again; each time it doubles. The default is 1 min.
	AskAgain time.Duration
	// ProgressEvery is the interval of progress notes. The default is 1 s.
	ProgressEvery time.Duration
	// DrainTimeout limits how long calls may continue after their connection has
	// ended. The default is 5 s.
	DrainTimeout time.Duration

	// Identify returns Principal, Space and Groups of an HTTP request; nil:
	// Principal and Space above. fault.Forbidden becomes a 403. It is called
	// concurrently.
	Identify func(*http.Request) (access.Caller, error)
	// Replica, if set, stands in front of the ids of HTTP sessions that begin here.
	Replica string
	// Capabilities, if set, returns the JSON pointers of the capabilities of clients that an
	// HTTP session has after a restart, too, beside those that MCP names.
	Capabilities func() []string
	// Ended keeps which HTTP sessions were ended. The default is the memory of this process.
	Ended sessions.Store
	// Audit is told which HTTP sessions clients begin and end; nil: nobody is.
	Audit *audit.Log
	// MaxSessions limits the HTTP sessions of the legacy eras. The default is 10000. A further one
	// evicts one that nothing uses: first those whose clients hung up, of the client that
	// holds the most.
	MaxSessions int
	// MaxSessionsPerClient limits those of one client, which is a principal, and without
	// Identify an address. The default is half of MaxSessions. A further one evicts one of its own.
	MaxSessionsPerClient int
	// SessionIdle is how long an unused session is kept in memory. The default is 1 h. One
	// with a call or a stream is in use. Its client continues it later by its id.
	SessionIdle time.Duration
	// SessionAge is the maximum age of a session. The default is 7 days, as that of runs.
	SessionAge time.Duration
	// Observer is notified of every tool call; may be nil.
	Observer Observer
}

// Validate returns all missing and invalid values.
func (c Config) Validate() error {
	var errs []error
	if c.Version == "" {
		errs = append(errs, errors.New("version is empty"))
	}
	if c.ChallengeTypes == nil || len(c.ChallengeTypes()) == 0 {
		errs = append(errs, errors.New("challenge types: none given"))
	}
	if c.Principal == "" || c.Space == "" {
		errs = append(errs, errors.New("principal and space are required"))
	}
	for name, d := range map[string]time.Duration{
		"state ttl": c.StateTTL, "plain wait": c.PlainWait, "progress wait": c.ProgressWait, "ask again": c.AskAgain,
		"progress interval": c.ProgressEvery, "drain timeout": c.DrainTimeout,
		"session idle": c.SessionIdle, "session age": c.SessionAge,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is negative", name))
		}
	}
	if c.MaxSessions < 0 || c.MaxSessionsPerClient < 0 {
		errs = append(errs, errors.New("max sessions is negative"))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.StateTTL = cmp.Or(c.StateTTL, 24*time.Hour)
	c.PlainWait = cmp.Or(c.PlainWait, 50*time.Second)
	c.ProgressWait = cmp.Or(c.ProgressWait, 10*time.Minute)
	c.AskAgain = cmp.Or(c.AskAgain, time.Minute)
	c.ProgressEvery = cmp.Or(c.ProgressEvery, time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 5*time.Second)
	c.SessionIdle = cmp.Or(c.SessionIdle, time.Hour)
	c.SessionAge = cmp.Or(c.SessionAge, 7*24*time.Hour)
	if c.MaxSessions == 0 {
		c.MaxSessions = 10_000
	}
	c.MaxSessionsPerClient = cmp.Or(c.MaxSessionsPerClient, (c.MaxSessions+1)/2)
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Ended == nil {
		c.Ended = &sessions.Memory{}
	}
	if c.StateKeys == nil {
		c.StateKeys = randomKey
	}
	return c
}

// Server serves the use cases of an engine over MCP. Its methods may be called concurrently.
type Server struct {
	cfg   Config
	log   *slog.Logger
	mcp   *server.MCPServer
	tools *tools
	http  *httpTransport
	stdio stdioConns
	close func() error // once
}

// New returns a server for the engine. It starts nothing and has no side effects.
func New(cfg Config, e Engine, log *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("mcp server: %w", err)
	}
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg, log: log}
	s.http = newHTTPTransport(s)
	s.close = sync.OnceValue(func() error {
		s.stdio.close()
		err := s.http.close(cfg.DrainTimeout)
		s.stdio.served.Wait()
		return err
	})
	callers := callers{plainWait: cfg.PlainWait, progressWait: cfg.ProgressWait, log: log, groups: cfg.Groups, identifies: cfg.Identify != nil}
	found := protocols{engine: e, callers: callers, log: log}
	instructions, err := text("instructions")
	if err != nil {
		return nil, fmt.Errorf("mcp server: %w", err)
	}
	hooks := s.hooks(callers)
	menu{found, func() map[string]*server.ServerPrompt { return s.mcp.ListPrompts() }}.hook(hooks)
	s.mcp = server.NewMCPServer("KAIROS", cfg.Version,
		server.WithInstructions(instructions),
		server.WithIcons(icon(serverDrawing)),
		server.WithCompletions(),
		server.WithPromptCompletionProvider(completion{found}),
		server.WithResourceCompletionProvider(completion{found}),
		server.WithToolCapabilities(false), // see hooks
		server.WithResourceCapabilities(false, false),
		server.WithPromptCapabilities(false),
		server.WithLogging(),
		server.WithHooks(hooks),
	)
	s.tools = &tools{
		mcp: s.mcp, engine: e, callers: callers, reminder: reminder{e, callers, log}, clientLog: clientLog{s.mcp, log}, observer: cfg.Observer,
		types: cfg.ChallengeTypes, firstCall: cfg.FirstCall,
		exchange: &exchange{
			engine: e, callers: callers, seal: newSealer(cfg.StateKeys, cfg.StateTTL, cfg.Clock), progressEvery: cfg.ProgressEvery, askAgain: cfg.AskAgain, log: log,
		},
	}
	measureHandshakes(s.mcp)
	s.tools.addAll()
	if err := addResources(s.mcp, found); err != nil {
		return nil, fmt.Errorf("mcp server: %w", err)
	}
	return s, nil
}

// hooks preserve what mcp-go would lose: the capabilities of a legacy client, which
// it overwrites with those of any modern request on the same session, and the
// JSON-RPC code of a handler's error.
func (s *Server) hooks(callers callers) *server.Hooks {
	h := &server.Hooks{}
	h.AddBeforeListTools(func(context.Context, any, *mcp.ListToolsRequest) { s.tools.refresh() })
	h.AddAfterListTools(plainTools)
	h.AddAfterInitialize(func(ctx context.Context, _ any, req *mcp.InitializeRequest, res *mcp.InitializeResult) {
		if from := originOf(ctx); from.conn != nil {
			client := describe(&req.Params.ClientInfo, &req.Params.Capabilities, res.ProtocolVersion, from.transport)
			if n := noteFrom(ctx); n != nil {
				client.Capabilities = callers.declaration(ctx, capabilitiesIn(n.message))
			}
			from.conn.initialized(client)
			from.conn.trips.greet()
		}
		// Only legacy clients are notified that the list changed. With the option of
		// mcp-go, modern ones would keep a stream open for it.
		if res.Capabilities.Tools != nil {
			res.Capabilities.Tools.ListChanged = true
		}
	})
	h.AddOnError(func(ctx context.Context, _ any, _ mcp.MCPMethod, message any, err error) {
		n := noteFrom(ctx)
		if n == nil {
			return
		}
		errors.As(err, &n.err)
		if read, ok := message.(*mcp.ReadResourceRequest); ok && errors.Is(err, server.ErrResourceNotFound) {
			n.data = map[string]any{"uri": read.Params.URI}
		}
	})
	return h
}

// Close ends all connections and waits for them: calls in flight get
// Config.DrainTimeout, and then a second to notice that they were cancelled. It may be
// called more than once.
func (s *Server) Close() error { return s.close() }

// operator is the caller of requests that do not identify one.
func (s *Server) operator() access.Caller {
	return access.Caller{Principal: s.cfg.Principal, Space: s.cfg.Space}
}

// randomKey returns a new random key.
func randomKey() ([][32]byte, error) {
	var key [32]byte
	_, err := rand.Read(key[:])
	return [][32]byte{key}, err
}
