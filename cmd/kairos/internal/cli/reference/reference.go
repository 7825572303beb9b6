// Package reference finds the step or the protocol that an argument names.
package reference

import (
	"context"
	"errors"
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

// Reference is what an argument names: a step by its URI, or a whole protocol
// by its title, by the end of its id or by a file that holds it.
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
	if err == nil && len(uris) == 0 {
		var titles []string
		if uris, titles, err = ending(ctx, t, title); len(uris) > 1 {
			return Reference{}, ambiguous(arg, uris, titles)
		}
	}
	switch {
	case err != nil:
		return Reference{}, err
	case len(uris) == 0:
		return Reference{}, fault.New(fault.NotFound, "no protocol has the title %.200q", title).
			WithHint("`kairos protocols list` lists the protocols; name one by its exact title, its URI, the end of its id or a file")
	case len(uris) > 1:
		return Reference{}, fault.New(fault.InvalidArgument, "%d protocols in different spaces have the title %.200q", len(uris), title).
			WithHint("name one by its URI: %s", strings.Join(uris, ", "))
	}
	return Reference{URI: uris[0], Whole: true}, nil
}

// FindAll finds the URIs of all arguments, before any step is touched.
func FindAll(ctx context.Context, t api.Transport, args []string) ([]string, error) {
	uris := make([]string, len(args))
	for i, arg := range args {
		named, err := Find(ctx, t, arg)
		if err != nil {
			return nil, err
		}
		uris[i] = named.URI
	}
	return uris, nil
}

// Kept is what calls about stored versions are given for an argument, which may be
// of a deleted protocol: a file's title, the URI that ends as the argument does, else
// the argument itself.
func Kept(ctx context.Context, t api.Transport, arg string) (string, error) {
	title, err := TitleOf(ctx, arg)
	if err != nil || NamesStep(StepURI(title)) {
		return title, err
	}
	uris, titles, err := ending(ctx, t, title)
	switch {
	case err != nil:
		return "", err
	case len(uris) > 1:
		return "", ambiguous(arg, uris, titles)
	case len(uris) == 1:
		return uris[0], nil
	}
	return title, nil
}

// ambiguous is the error for the end of an id that several protocols have.
func ambiguous(arg string, uris, titles []string) error {
	var candidates strings.Builder
	for i, uri := range uris {
		fmt.Fprintf(&candidates, "\n  %s  %s", uri, titles[i])
	}
	return fmt.Errorf("%.80q names %d protocols; name one by its URI:%s", arg, len(uris), candidates.String())
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

// ending lists the first steps of the protocols whose id ends with the argument,
// each with its title.
func ending(ctx context.Context, t api.Transport, arg string) (uris, titles []string, err error) {
	if arg = strings.ToLower(arg); !output.EndsID(arg, arg) {
		return nil, nil, nil
	}
	reply, err := Spaces(ctx, t, true)
	for _, s := range reply.Spaces {
		for _, c := range s.Chains {
			if output.EndsID(c.URI, arg) && !slices.Contains(uris, c.URI) {
				uris, titles = append(uris, c.URI), append(titles, c.Title)
			}
		}
	}
	return uris, titles, err
}

// Spaces lists the spaces, with titles also their protocols: it asks for one page
// after the other, at most 1000 protocols a call.
func Spaces(ctx context.Context, t api.Transport, titles bool) (api.SpacesReply, error) {
	const page = 1000
	all, err := api.Spaces.Call(ctx, t, api.SpacesRequest{Titles: titles, Limit: page})
	for cursor := all.NextCursor; err == nil && cursor != ""; {
		var more api.SpacesReply
		if more, err = api.Spaces.Call(ctx, t, api.SpacesRequest{Titles: titles, Limit: page, Cursor: cursor}); err != nil {
			break
		}
		for _, s := range more.Spaces {
			for i := range all.Spaces {
				if all.Spaces[i].Name == s.Name && all.Spaces[i].SpaceID == s.SpaceID {
					all.Spaces[i].Chains = append(all.Spaces[i].Chains, s.Chains...)
				}
			}
		}
		if more.NextCursor == cursor {
			return all, errors.New("cannot list the titles: the server repeats the same page")
		}
		cursor = more.NextCursor
	}
	all.NextCursor = ""
	return all, err
}

// TitleOf is the title of the protocol in a file, or the argument itself if it
// does not name a file.
func TitleOf(ctx context.Context, arg string) (string, error) {
	chain, err := InFile(ctx, arg)
	if err != nil || chain == nil {
		return arg, err
	}
	return chain.Title, nil
}

// InFile is the protocol in a file; nil: the argument does not name a file.
func InFile(ctx context.Context, arg string) (*protocol.Chain, error) {
	if info, err := os.Stat(arg); !documents.IsMarkdown(arg) && (err != nil || !info.Mode().IsRegular()) {
		return nil, nil //nolint:nilerr,nilnil // what is not a file is a title
	}
	b, err := documents.Document{Name: arg}.Read(ctx, nil)
	if err != nil {
		return nil, err
	}
	chains, _ := protocol.ParseFile(b, arg)
	if len(chains) != 1 {
		return nil, fmt.Errorf("%s holds %s, so it does not name one; use a title", arg, output.Count(len(chains), "protocol"))
	}
	return &chains[0], nil
}
