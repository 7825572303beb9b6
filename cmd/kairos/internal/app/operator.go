package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/server/socket"
	"github.com/kairos-mcp/kairos/core/server/web/runpage"
	"github.com/kairos-mcp/kairos/core/statement"
)

// operator is the use cases behind the calls of operators.
type operator struct {
	operations.Runs
	operations.Records
	operations.Versions

	app    *App
	health func(context.Context) rest.Health
	// turn has room for one diagnosis: each asks the drivers about all that is stored.
	turn chan struct{}
}

// Operations is the use cases behind the calls of operators.
func (a *App) Operations() operations.Engine { return a.operations(a.health()) }

func (a *App) operations(health func(context.Context) rest.Health) operator {
	return operator{
		Runs: a.Engine.Runs, Records: a.Engine.Archive, Versions: a.Engine.Library,
		app: a, health: health, turn: make(chan struct{}, 1),
	}
}

// Page implements operations.Pages.
func (o operator) Page(ctx context.Context, c access.Caller, id run.ID) ([]byte, error) {
	setup, release := o.app.setup.Hold()
	defer release()
	return o.app.Page(ctx, c, id, setup.Tree.Outline())
}

// Statement implements operations.Statements.
func (o operator) Statement(ctx context.Context, c access.Caller, id run.ID, withoutEvidence bool) ([]byte, error) {
	return o.app.Statement(ctx, c, id, withoutEvidence)
}

// PublicKey implements operations.Statements.
func (o operator) PublicKey() (statement.PublicKey, error) {
	key, err := o.app.Config.Keys().Signing()
	if err != nil {
		return statement.PublicKey{}, err
	}
	return key.Public(), nil
}

// Refused implements operations.Refusals.
func (o operator) Refused(ctx context.Context, c access.Caller, useCase string, err error) error {
	return o.app.Audit.Refused(ctx, c, audit.Act{Action: audit.Action(useCase)}, err)
}

// Diagnose implements operations.Diagnosis.
func (o operator) Diagnose(ctx context.Context, c access.Caller) (operations.Report, error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return operations.Report{}, ctx.Err()
	}
	h := o.health(ctx)
	r := operations.Report{
		Version:   o.app.Version,
		Store:     operations.Part{Detail: o.app.Config.Database.Kind(), Problem: o.problem(ctx, "store", h.Store)},
		Embedding: operations.Part{Detail: h.Provider, Problem: o.problem(ctx, "embedding", h.Embedding)},
		Readiness: operations.Part{Problem: o.problem(ctx, "readiness", o.app.ready(ctx))},
		Drivers:   []operations.DriverState{},
		Unserved:  archive.Unserved{Steps: []archive.UnservedStep{}, Runs: []archive.UnservedRun{}},
	}
	if h.Indexed {
		r.Index = &operations.Part{Detail: "Qdrant", Problem: o.problem(ctx, "index", h.Index)}
	}
	if where, err := o.app.Audit.State(); where != "" {
		r.Audit = &operations.Part{Detail: where, Problem: o.problem(ctx, "audit log", err)}
	}
	if h.Store == nil {
		var err error
		if r.Unserved, err = o.app.Engine.Archive.Unserved(ctx, c); err != nil {
			return operations.Report{}, fmt.Errorf("ask the drivers about what is stored: %w", err)
		}
	}
	for _, d := range o.app.host.Status() { // after they were asked
		failing := d.State == driverhost.Backoff || d.State == driverhost.BreakerOpen || d.State == driverhost.HalfOpen
		r.Drivers = append(r.Drivers, operations.DriverState{Name: d.Name, Version: d.Version, State: string(d.State), Failing: failing})
	}
	return r, nil
}

// problem is what of an error callers may see; the log has the rest.
func (o operator) problem(ctx context.Context, part string, err error) string {
	if err == nil {
		return ""
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Message
	}
	o.app.log.WarnContext(ctx, "a part of the server has a problem", "part", part, "error", err)
	return "it does not work; the log of the server has the cause"
}

// adminSocket is where this process is to listen, or "".
func adminSocket(c config.Config) string {
	switch s := c.Admin.Socket; s {
	case "":
		return socket.DefaultSocket()
	case config.AdminOff:
		return ""
	default:
		return files.Absolute(socket.In(s))[0]
	}
}

// AdminPlaces are the folders and sockets where servers of this configuration may listen.
func AdminPlaces(c config.Config) []string {
	places := socket.DefaultFolders()
	if c.Admin.Socket != "" && c.Admin.Socket != config.AdminOff {
		places = append(places, filepath.Clean(c.Admin.Socket))
	}
	return places
}

// machine is what the operator of this machine sees of the process and changes;
// config names the configuration file.
func machine(a *App, config string) operations.Machine {
	info := operations.Info{
		PID: os.Getpid(), Version: a.Version, StartedAt: time.Now(), DriversDir: files.Absolute(a.Config.Drivers.Dir)[0],
		Database: databaseOf(a.Config), Config: config, Watch: *a.Config.Drivers.Watch,
	}
	return operations.Machine{Drivers: a.host, Setup: a.setup, Log: a.logged, LoginLink: a.loginLink, Info: func() operations.Info {
		now := info
		now.HTTP = a.mainPort.String()
		return now
	}}
}

// asOperator says who the operator of this machine calls as.
func asOperator(a *App) func(operations.Operation) access.Caller {
	return func(o operations.Operation) access.Caller {
		if o.OfRuns {
			return a.RunCaller()
		}
		return a.Caller()
	}
}

// operatorLabel separates this use of the state keys from any other.
const operatorLabel = "kairos operator token 1"

// sharedTokens are the tokens of operators of servers that share a database behind one
// proxy: a call reaches any of them, so a token of its own for each would be wrong at the
// others. They have the same state keys, from which the tokens are derived.
func sharedTokens(stateKeys func() ([][32]byte, error)) ([]string, error) {
	keys, err := stateKeys()
	if err != nil {
		return nil, err
	}
	tokens := make([]string, len(keys))
	for i, key := range keys {
		token, err := hkdf.Key(sha256.New, key[:], nil, operatorLabel, 16)
		if err != nil {
			return nil, err
		}
		tokens[i] = hex.EncodeToString(token)
	}
	return tokens, nil
}

// ServerAt returns a client for the operations of the server at a URL, if it is a server of
// this user on this machine; false: it is not. The caller closes the client.
func ServerAt(ctx context.Context, c config.Config, at *url.URL) (own socket.Client, ok bool) {
	// A place that was refused is one whose servers are not this user's.
	found, _ := socket.Find(ctx, AdminPlaces(c)...)
	for _, f := range found {
		if ok || !reaches(at, f.HTTP) {
			f.Close()
			continue
		}
		own, ok = f.Client, true
	}
	return own, ok
}

// reaches reports whether a URL is that of the server that listens at an address.
func reaches(at *url.URL, listens string) bool {
	listener, err := netip.ParseAddrPort(listens)
	if err != nil {
		return false
	}
	usual := map[string]string{"http": "80", "https": "443"}[at.Scheme]
	own := listener.Addr().Unmap()
	name, port := at.Hostname(), cmp.Or(at.Port(), usual)
	if port != strconv.Itoa(int(listener.Port())) {
		return false
	}
	ip, err := netip.ParseAddr(name)
	local := name == "localhost" || err == nil && ip.Unmap().IsLoopback()
	return own.IsUnspecified() && local || own.IsLoopback() && name == "localhost" || err == nil && ip.Unmap() == own
}

// Page is one of the caller's runs as a web page, drawn on a tree.
func (a *App) Page(ctx context.Context, c access.Caller, id run.ID, tree decision.Outline) ([]byte, error) {
	line, err := a.Engine.Archive.Timeline(ctx, c, id)
	if err != nil {
		return nil, err
	}
	made, err := a.Engine.Archive.Decisions(ctx, c, id)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = runpage.Run{Timeline: line, Decisions: made, Tree: tree}.Page(&b)
	return b.Bytes(), err
}

// Statement signs a statement of one of the caller's runs.
func (a *App) Statement(ctx context.Context, c access.Caller, id run.ID, withoutEvidence bool) (_ []byte, err error) {
	account, err := a.Engine.Archive.Account(ctx, c, id)
	if err != nil {
		return nil, err
	}
	doing, err := a.Audit.Begin(ctx, c, audit.Act{Action: audit.RunExport, Space: account.Chain.Space, Object: string(id)})
	if err != nil {
		return nil, err
	}
	defer doing.End(&err)
	s, beside, err := statement.Of(recordOf(account, a.Version))
	if err != nil {
		return nil, fmt.Errorf("the proof chain of run %s is broken, so nothing is signed: %w", id, err)
	}
	if withoutEvidence {
		beside = nil
	}
	key, err := a.Config.Keys().Signing()
	if err != nil {
		return nil, err
	}
	return statement.Sign(ctx, key, s, beside)
}

func recordOf(a archive.Account, version string) statement.Record {
	rec := statement.Record{Run: a.Run, Challenges: a.Challenges, Version: version, At: time.Now(),
		Revision: a.Protocol.Revision, Current: a.Protocol.Current, Stored: a.Protocol.Stored,
	}
	for _, step := range a.Chain.Steps {
		rec.Labels = append(rec.Labels, step.Heading())
	}
	return rec
}
