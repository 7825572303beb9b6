package access

import (
	"context"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// AppSpace is the space of the built-in protocols; readable by everybody.
const AppSpace = "space:kairos-app"

// Caller identifies the principal and the client of a call. Every use case takes one.
type Caller struct {
	Principal string
	// Credential names what the caller has shown, such as "token:<id>". A session over HTTP is
	// bound to it. It is empty where callers show nothing.
	Credential string
	// Method is how the caller has shown who it is; empty: not at all.
	Method Method
	// Name is what people call the principal, where that is known. It identifies nobody.
	Name string
	// Application is the program that a token of the identity provider was issued to, where that
	// is known. A session over HTTP is bound to it, and outlives the token.
	Application string
	// MemberOf are the groups that the principal belongs to: "group:<realm>:<ref>".
	MemberOf []string
	// Space is the caller's own, where it writes unless it names another.
	Space string
	// Groups are further spaces that the caller reads and writes, by id:
	// "group:<realm>:<ref>". Everybody reads AppSpace.
	Groups []string
	// Granted are further spaces, in each of which the caller has the verbs of its own.
	Granted []Grant
	// Narrowed are the only verbs besides reading that count in any space; nil: all do.
	Narrowed *Verbs
	// Operator: the caller may do what is the operator's.
	Operator bool
	// Connection names the caller's connection; empty for a client that
	// keeps none, as in the 2026-07-28 era.
	Connection string
	Client     driver.Client
	// Visit is how the caller reached the approval page, for calls that come from it.
	Visit run.Visit
	// CanWait is how long the call may wait for a person.
	CanWait time.Duration
	// Holding reports whether the caller's connection still waits for the
	// client's answer to this question; if nil, it never does. Such a question
	// stays open instead of being asked again.
	Holding func(id run.ID, seq int64) bool
	// Asked, if set, is called before this call asks a question, and before another
	// call can see the question in the run: from then on Holding reports it.
	Asked func(id run.ID, seq int64)
	// Detached: nobody waits for the reply, so nothing may be asked.
	Detached bool
}

// Method is a way in which a caller shows who it is.
type Method string

// The methods.
const (
	// ByToken: an access token of this server, which a program holds for its owner.
	ByToken Method = "token"
	// ByProvider: a token of the identity provider, which a program holds for a person.
	ByProvider Method = "oidc"
	// ByLogin: a person has logged in with a browser, and this call comes from it.
	ByLogin Method = "login"
)

// Spaces lists the spaces that the caller may read, its own first, AppSpace last.
// Every read of a protocol is limited to them, so that a protocol elsewhere looks like
// one that does not exist.
func (c Caller) Spaces() []string { return append(c.Own(), AppSpace) }

// Own lists the spaces that the caller may read, its own first, without AppSpace.
func (c Caller) Own() []string {
	all := append([]string{c.Space}, c.Groups...)
	for _, g := range c.Granted {
		all = append(all, g.Space)
	}
	var out []string
	for _, s := range all {
		if s != "" && s != AppSpace && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Writable lists the spaces that the caller may change: never AppSpace, whose
// protocols belong to the program.
func (c Caller) Writable() []string {
	return slices.DeleteFunc(c.Own(), func(space string) bool { return !c.May(Write, space) })
}

// Reads reports whether the caller may read the space.
func (c Caller) Reads(space string) bool { return slices.Contains(c.Spaces(), space) }

type callerKey struct{}

// WithCaller records who makes a request, for handlers behind the one that has found it out.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller recorded by WithCaller; false: there is none.
func CallerOf(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

type spaceKey struct{}

// InSpace records in the context in which space stores and the Embedder are called.
func InSpace(ctx context.Context, space string) context.Context {
	return context.WithValue(ctx, spaceKey{}, space)
}

// SpaceOf returns the space recorded by InSpace, or "" for background work.
func SpaceOf(ctx context.Context) string {
	space, _ := ctx.Value(spaceKey{}).(string)
	return space
}
