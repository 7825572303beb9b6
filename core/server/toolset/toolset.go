// Package toolset is the table of the tools that faces serve: each declaration of
// package api with the use case behind it.
package toolset

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/shape"
)

// Engine is the use cases behind the tools. Methods are called concurrently.
type Engine interface {
	Runs
	Library
}

// Runs is the use cases about runs. Implemented by *director.Engine.
type Runs interface {
	Begin(ctx context.Context, c access.Caller, in api.BeginRequest) (director.Round, error)
	Next(ctx context.Context, c access.Caller, in api.NextRequest) (director.Round, error)
	Attest(ctx context.Context, c access.Caller, in api.AttestRequest) (api.AttestReply, error)
	// Part is a part of a step's text as a run shows it.
	Part(ctx context.Context, c access.Caller, in api.DumpRequest) (api.DumpReply, error)
	// Continue continues a call that has asked its client something.
	Continue(ctx context.Context, c access.Caller, in director.Continuation) (director.Round, error)
}

// Library is the use cases about protocols. Implemented by *library.Library.
type Library interface {
	Search(ctx context.Context, c access.Caller, in api.SearchRequest) (api.SearchReply, error)
	Dump(ctx context.Context, c access.Caller, in api.DumpRequest) (api.DumpReply, error)
	Spaces(ctx context.Context, c access.Caller, in api.SpacesRequest) (api.SpacesReply, error)
	Mint(ctx context.Context, c access.Caller, in api.MintRequest) (api.MintReply, error)
	Update(ctx context.Context, c access.Caller, in api.UpdateRequest) (api.UpdateReply, error)
	Delete(ctx context.Context, c access.Caller, in api.DeleteRequest) (api.DeleteReply, error)
}

// UseCases is an Engine of separate values.
type UseCases struct {
	Runs
	Library
}

// Tool is one row of the table. Either Reply or Open is set. Both decode the
// arguments; ones that do not decode are an *ArgumentsError.
type Tool struct {
	api.Declaration
	// Input and Output make the schemas of the request and of the reply.
	Input, Output func() *shape.Schema
	// Reply makes a call that is answered at once.
	Reply func(ctx context.Context, e Engine, c access.Caller, arguments []byte) (any, error)
	// Open makes a call that may ask the client something before it replies.
	Open func(ctx context.Context, e Engine, c access.Caller, arguments []byte) (director.Round, error)
}

// Table lists the tools in the order of a run, then of authoring.
var Table = []Tool{
	Replies(api.Search, Engine.Search),
	Opens(api.Begin, Engine.Begin),
	Opens(api.Next, Engine.Next),
	Replies(api.Attest, Engine.Attest),
	Replies(api.Mint, Engine.Mint),
	Replies(api.Update, Engine.Update),
	Replies(api.Delete, Engine.Delete),
	Replies(api.Dump, dump),
	Replies(api.Spaces, Engine.Spaces),
}

// dump reads what is stored, or with a part and a run what the run shows.
func dump(e Engine, ctx context.Context, c access.Caller, in api.DumpRequest) (api.DumpReply, error) { //nolint:revive // a UseCase
	if in.Part != 0 && in.RunID != "" {
		return e.Part(ctx, c, in)
	}
	return e.Dump(ctx, c, in)
}

// InputOf is Input with the challenge types that a solution may have. If types is nil the
// schema does not list them.
func (t Tool) InputOf(types []string) *shape.Schema {
	input := t.Input()
	if types != nil {
		input.Properties.Named("solution").Properties.Named("type").Enum = types
	}
	return input
}

// Served is a tool as agents see it now.
type Served struct {
	Name, Title, Description string
	// Input and Output are JSON Schemas of objects. Output describes error replies too.
	Input, Output json.RawMessage
}

// Named is the row of a tool.
func Named(tool string) (Tool, error) {
	i := slices.IndexFunc(Table, func(t Tool) bool { return t.Name == tool })
	if i < 0 {
		return Tool{}, fault.New(fault.NotFound, "there is no tool %.100q", tool)
	}
	return Table[i], nil
}

// Unasked makes a call for a client that cannot be asked anything.
func (t Tool) Unasked(ctx context.Context, e Engine, c access.Caller, arguments []byte) (any, error) {
	if t.Open == nil {
		return t.Reply(ctx, e, c, arguments)
	}
	return Unasked(ctx, e, c, func() (director.Round, error) { return t.Open(ctx, e, c, arguments) })
}

// UseCase is a method of Engine.
type UseCase[Request, Result any] = func(Engine, context.Context, access.Caller, Request) (Result, error)

func row[Request, Reply any](t api.Tool[Request, Reply]) Tool {
	return Tool{Declaration: t.Declaration, Input: t.Input, Output: t.Output}
}

// Replies is the row of a tool that replies at once.
func Replies[Request, Reply any](t api.Tool[Request, Reply], use UseCase[Request, Reply]) Tool {
	tool := row(t)
	tool.Reply = func(ctx context.Context, e Engine, c access.Caller, arguments []byte) (any, error) {
		in, err := Decode[Request](arguments)
		if err != nil {
			return nil, err
		}
		return use(e, ctx, c, in)
	}
	return tool
}

// Opens is the row of a tool that may ask the client something before it
// replies.
func Opens[Request any](t api.Tool[Request, api.StepReply], use UseCase[Request, director.Round]) Tool {
	tool := row(t)
	tool.Open = func(ctx context.Context, e Engine, c access.Caller, arguments []byte) (director.Round, error) {
		in, err := Decode[Request](arguments)
		if err != nil {
			return director.Round{}, err
		}
		return use(e, ctx, c, in)
	}
	return tool
}

// ArgumentsError says that arguments do not decode.
type ArgumentsError struct{ cause error }

func (e *ArgumentsError) Error() string { return "arguments: " + e.cause.Error() }

// Unwrap returns the error of the decoder.
func (e *ArgumentsError) Unwrap() error { return e.cause }

// Decode decodes arguments. A null counts as left out, which is how some clients
// send what they do not use. Ones that do not decode are an *ArgumentsError. What is not
// an argument is ignored, as clients add what they like, unless it is almost one: left out,
// that would change what the call does; encoding/json would take another case.
func Decode[Request any](arguments []byte) (in Request, err error) {
	if len(arguments) == 0 {
		return in, nil
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return in, &ArgumentsError{err}
	}
	if err := checkNames(arguments, reflect.TypeFor[Request]()); err != nil {
		return in, err
	}
	for declared, field := range reflect.ValueOf(&in).Elem().Fields() {
		if raw, ok := field.Interface().(json.RawMessage); ok && string(raw) == "null" {
			field.SetZero()
		}
		if err := checkText(declared, field); err != nil {
			return in, err
		}
	}
	return in, nil
}

// checkNames refuses names that are almost those of arguments which were left out.
func checkNames(arguments []byte, request reflect.Type) error {
	given := map[string]json.RawMessage{}
	if err := json.Unmarshal(arguments, &given); err != nil {
		return &ArgumentsError{err}
	}
	var left []string            // names of arguments that were not given
	known := map[string]string{} // by their letters in lower case
	for field := range request.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[strings.ToLower(name)] = name
		if _, ok := given[name]; !ok {
			left = append(left, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		meant := known[strings.ToLower(name)]
		if meant == name {
			continue
		}
		if meant = cmp.Or(meant, almost(name, left)); meant != "" {
			return fault.New(fault.InvalidArgument, "%.100q is not an argument of this tool; did you mean %q?", name, meant).
				WithNext("call again with %s instead of %.100s; nothing was done", meant, name)
		}
	}
	return nil
}

// almost is the name that was probably meant by one that is not known, or "". Words in it
// may be joined in another way.
func almost(name string, known []string) string {
	plain := strings.NewReplacer("_", "", "-", "", " ", "")
	for _, k := range known {
		if strings.EqualFold(plain.Replace(name), plain.Replace(k)) {
			return k
		}
	}
	return fields.Closest(name, known)
}

// maxText is how many bytes a text of a call may have that is not a document: what a person
// or a model says about one thing. Documents and solutions have limits of their own.
const maxText = 64 << 10

// checkText refuses a text that is too long to be looked at.
func checkText(declared reflect.StructField, value reflect.Value) error {
	name, _, _ := strings.Cut(declared.Tag.Get("json"), ",")
	if declared.Tag.Get("size") == "document" {
		return nil
	}
	texts := []string{}
	switch v := value.Interface().(type) {
	case string:
		texts = append(texts, v)
	case []string:
		texts = v
	}
	for _, text := range texts {
		if len(text) > maxText {
			return fault.New(fault.InvalidArgument, "%s has %d bytes: at most %d are taken", name, len(text), maxText).
				WithNext("shorten %s to what matters, and call again", name)
		}
	}
	return nil
}

// Names lists the names of the tools.
func Names() []string {
	names := make([]string, len(Table))
	for i, t := range Table {
		names[i] = t.Name
	}
	return names
}

// commonFields are the fields of a solution that are not the evidence of one type.
var commonFields = []string{"type", "nonce", "proof_hash", "evidence"}

// SolutionFields are the challenge types that have a field of their own in the
// solutions of kairos_next, in alphabetical order.
func SolutionFields() []string {
	var types []string
	for _, p := range shape.SchemaOf(api.Solution{}).Properties {
		if !slices.Contains(commonFields, p.Name) {
			types = append(types, p.Name)
		}
	}
	slices.Sort(types)
	return types
}
