package reference

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/documents"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// StepURI is the URI of the step that an argument names: a URI, or anything
// whose last part is a UUID. What is neither is left for the call to refuse.
func StepURI(arg string) string {
	if _, err := protocol.ParseURI(arg); err == nil {
		return arg
	}
	if uri := protocol.URI(arg[strings.LastIndex(arg, "/")+1:]); NamesStep(uri) {
		return uri
	}
	return arg
}

// NamesStep reports whether the URI is that of a step.
func NamesStep(uri string) bool {
	_, err := protocol.ParseURI(uri)
	return err == nil
}

// StepURIs are the URIs of the steps that the arguments name. An argument that
// is neither a URI nor a UUID is an error, before any step is touched.
func StepURIs(args []string) ([]string, error) {
	uris := make([]string, len(args))
	for i, arg := range args {
		if uris[i] = StepURI(arg); !NamesStep(uris[i]) {
			return nil, fault.New(fault.InvalidArgument, "%.200q is not the URI or UUID of a step", arg).
				WithHint("`kairos search WORDS` and `kairos spaces --titles` print URIs")
		}
	}
	return uris, nil
}

// Reference is what an argument names: a step by its URI, or a whole protocol
// by its title or by a file that holds it.
type Reference struct {
	URI   string // of the step, or of the protocol's first step
	Whole bool   // the argument names the protocol, not one of its steps
}

// Find finds what an argument names among the stored protocols.
func Find(ctx context.Context, t api.Transport, arg string) (Reference, error) {
	if uri := StepURI(arg); NamesStep(uri) {
		return Reference{URI: uri}, nil
	}
	if strings.Contains(arg, "://") {
		return Reference{}, fault.New(fault.InvalidArgument, "%.200q is not the URI of a step; one looks like kairos://mem/<uuid>", arg)
	}
	title, err := TitleOf(ctx, arg)
	if err != nil {
		return Reference{}, err
	}
	uris, err := titled(ctx, t, title)
	switch {
	case err != nil:
		return Reference{}, err
	case len(uris) == 0:
		return Reference{}, fault.New(fault.NotFound, "no protocol has the title %.200q", title).
			WithHint("`kairos search WORDS` finds protocols; name one by its exact title, its URI or a file")
	case len(uris) > 1:
		return Reference{}, fault.New(fault.InvalidArgument, "%d protocols in different spaces have the title %.200q", len(uris), title).
			WithHint("name one by its URI: %s", strings.Join(uris, ", "))
	}
	return Reference{URI: uris[0], Whole: true}, nil
}

// titled lists the first steps of the protocols with this title, one for each
// space that has one.
func titled(ctx context.Context, t api.Transport, title string) ([]string, error) {
	reply, err := api.Search.Call(ctx, t, api.SearchRequest{Query: title})
	if err != nil {
		return nil, err
	}
	var uris []string
	for _, c := range reply.Choices {
		if c.ChainLabel != nil && protocol.ChainID(*c.ChainLabel) == protocol.ChainID(title) && !slices.Contains(uris, c.URI) {
			uris = append(uris, c.URI)
		}
	}
	return uris, nil
}

// TitleOf is the title of the protocol in a file, or the argument itself if it
// does not name a file.
func TitleOf(ctx context.Context, arg string) (string, error) {
	if info, err := os.Stat(arg); !documents.IsMarkdown(arg) && (err != nil || !info.Mode().IsRegular()) {
		return arg, nil //nolint:nilerr // what is not a file is a title
	}
	b, err := documents.Document{Name: arg}.Read(ctx, nil)
	if err != nil {
		return "", err
	}
	chains, _ := protocol.Parse(b)
	if len(chains) != 1 {
		return "", fmt.Errorf("%s holds %s, so it does not name one; use a title", arg, output.Count(len(chains), "protocol"))
	}
	return chains[0].Title, nil
}
