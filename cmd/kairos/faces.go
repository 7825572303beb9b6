package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/restclient"
)

// Environment of the commands that can ask a server.
const (
	serverEnv = "KAIROS_API_URL"
	tokenEnv  = "KAIROS_BEARER_TOKEN"
)

// session is what the flags of every command say: the configuration to work on,
// or the server to ask instead.
type session struct {
	options
	// url is the server that the nine calls are sent to; empty: see server.
	url string
}

// tools are the nine calls, answered by this process or by a server.
type tools interface {
	Search(ctx context.Context, in api.SearchRequest) (api.SearchReply, error)
	Begin(ctx context.Context, in api.BeginRequest) (api.StepReply, error)
	Next(ctx context.Context, in api.NextRequest) (api.StepReply, error)
	Attest(ctx context.Context, in api.AttestRequest) (api.AttestReply, error)
	Mint(ctx context.Context, in api.MintRequest) (api.MintReply, error)
	Update(ctx context.Context, in api.UpdateRequest) (api.UpdateReply, error)
	Delete(ctx context.Context, uris []string) (api.DeleteReply, error)
	Dump(ctx context.Context, uri string, whole bool) (api.DumpReply, error)
	Spaces(ctx context.Context, in api.SpacesRequest) (api.SpacesReply, error)
}

// server is the address of the server to ask; empty: none, this process answers.
// What is said on the command line beats the environment, a database too.
func (s session) server() string {
	if s.url != "" || s.database != "" {
		return s.url
	}
	return os.Getenv(serverEnv)
}

// withTools runs do on the nine calls of the server, else of the local database.
func (s session) withTools(ctx context.Context, do func(context.Context, tools) error) error {
	if address := s.server(); address != "" {
		client, err := restclient.New(address, restclient.Token(os.Getenv(tokenEnv)), nil)
		if err != nil {
			return err
		}
		return do(ctx, client)
	}
	return s.with(ctx, func(ctx context.Context, a *app) error { return do(ctx, local{app: a}) })
}

// asksServers marks the commands that --url means something to.
var asksServers = map[string]string{"kairos/asks-servers": "yes"}

// checkServer refuses --url where nobody would ask the server, rather than
// answer from another database than the one that is meant.
func (s session) checkServer(cmd *cobra.Command) error {
	if s.url == "" {
		if s.server() != "" && onStoredProtocols[topCommand(cmd)] {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %s works on the local database, not on the server of %s\n", cmd.CommandPath(), serverEnv)
		}
		return nil
	}
	if cmd.Annotations["kairos/asks-servers"] == "" {
		return fmt.Errorf("%s works on the local database and configuration only: leave --url out", cmd.CommandPath())
	}
	if s.database != "" {
		return fmt.Errorf("--db and --url exclude each other: one names the local database, the other a server")
	}
	return nil
}

// onStoredProtocols are the commands that people could take for those of a server.
var onStoredProtocols = map[string]bool{"export": true, "import": true, "history": true, "diff": true, "restore": true, "runs": true, "run": true}

// topCommand is the name of the command right below the program.
func topCommand(cmd *cobra.Command) string {
	if path := strings.Fields(cmd.CommandPath()); len(path) > 1 {
		return path[1]
	}
	return ""
}

// local answers the nine calls in this process.
type local struct{ app *app }

func (l local) Search(ctx context.Context, in api.SearchRequest) (api.SearchReply, error) {
	return l.app.engine.Search(ctx, l.app.caller(), in)
}

func (l local) Begin(ctx context.Context, in api.BeginRequest) (api.StepReply, error) {
	return l.played(ctx, func() (engine.Round, error) { return l.app.engine.Begin(ctx, l.app.caller(), in) })
}

func (l local) Next(ctx context.Context, in api.NextRequest) (api.StepReply, error) {
	return l.played(ctx, func() (engine.Round, error) { return l.app.engine.Next(ctx, l.app.caller(), in) })
}

func (l local) Attest(ctx context.Context, in api.AttestRequest) (api.AttestReply, error) {
	return l.app.engine.Attest(ctx, l.app.caller(), in)
}

func (l local) Mint(ctx context.Context, in api.MintRequest) (api.MintReply, error) {
	return l.app.engine.Mint(ctx, l.app.caller(), in)
}

func (l local) Update(ctx context.Context, in api.UpdateRequest) (api.UpdateReply, error) {
	return l.app.engine.Update(ctx, l.app.caller(), in)
}

func (l local) Delete(ctx context.Context, uris []string) (api.DeleteReply, error) {
	return l.app.engine.Delete(ctx, l.app.caller(), uris)
}

func (l local) Dump(ctx context.Context, uri string, whole bool) (api.DumpReply, error) {
	return l.app.engine.Dump(ctx, l.app.caller(), uri, whole)
}

func (l local) Spaces(ctx context.Context, in api.SpacesRequest) (api.SpacesReply, error) {
	return l.app.engine.Spaces(ctx, l.app.caller(), in)
}

// played is the reply of a call. A command declares no capability of a client.
func (l local) played(ctx context.Context, open func() (engine.Round, error)) (api.StepReply, error) {
	reply, err := engine.Unasked(ctx, l.app.engine, l.app.caller(), open)
	if err != nil {
		return api.StepReply{}, err
	}
	return *reply, nil
}

// stepURI is the URI of the step that an argument names: a URI, or anything
// whose last part is a UUID. What is neither is left for the call to refuse.
func stepURI(arg string) string {
	if _, err := protocol.ParseURI(arg); err == nil {
		return arg
	}
	if uri := protocol.URI(arg[strings.LastIndex(arg, "/")+1:]); namesStep(uri) {
		return uri
	}
	return arg
}

func namesStep(uri string) bool {
	_, err := protocol.ParseURI(uri)
	return err == nil
}

// stepURIs are the URIs of the steps that the arguments name. An argument that
// is neither a URI nor a UUID is an error, before any step is touched.
func stepURIs(args []string) ([]string, error) {
	uris := make([]string, len(args))
	for i, arg := range args {
		if uris[i] = stepURI(arg); !namesStep(uris[i]) {
			return nil, fault.New(fault.InvalidArgument, "%.200q is not the URI or UUID of a step", arg).
				WithNext("`kairos search WORDS` and `kairos spaces --titles` print URIs")
		}
	}
	return uris, nil
}
