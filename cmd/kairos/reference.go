package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// reference is what an argument names: a step by its URI, or a whole protocol
// by its title or by a file that holds it.
type reference struct {
	uri   string // of the step, or of the protocol's first step
	whole bool   // the argument names the protocol, not one of its steps
}

// refer finds what an argument names among the stored protocols.
func refer(ctx context.Context, t tools, arg string) (reference, error) {
	if uri := stepURI(arg); namesStep(uri) {
		return reference{uri: uri}, nil
	}
	if strings.Contains(arg, "://") {
		return reference{}, fault.New(fault.InvalidArgument, "%.200q is not the URI of a step; one looks like kairos://mem/<uuid>", arg)
	}
	title, err := titleOf(ctx, arg)
	if err != nil {
		return reference{}, err
	}
	uris, err := titled(ctx, t, title)
	switch {
	case err != nil:
		return reference{}, err
	case len(uris) == 0:
		return reference{}, fault.New(fault.NotFound, "no protocol has the title %.200q", title).
			WithNext("`kairos search WORDS` finds protocols; name one by its exact title, its URI or a file")
	case len(uris) > 1:
		return reference{}, fault.New(fault.InvalidArgument, "%d protocols in different spaces have the title %.200q", len(uris), title).
			WithNext("name one by its URI: %s", strings.Join(uris, ", "))
	}
	return reference{uri: uris[0], whole: true}, nil
}

// titled lists the first steps of the protocols with this title, one for each
// space that has one.
func titled(ctx context.Context, t tools, title string) ([]string, error) {
	reply, err := t.Search(ctx, api.SearchRequest{Query: title})
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

// titleOf is the title of the protocol in a file, or the argument itself if it
// does not name a file.
func titleOf(ctx context.Context, arg string) (string, error) {
	if info, err := os.Stat(arg); !isMarkdown(arg) && (err != nil || !info.Mode().IsRegular()) {
		return arg, nil //nolint:nilerr // what is not a file is a title
	}
	b, err := document{name: arg}.read(ctx, nil)
	if err != nil {
		return "", err
	}
	chains, _ := protocol.Parse(b)
	if len(chains) != 1 {
		return "", fmt.Errorf("%s holds %s, so it does not name one; use a title", arg, count(len(chains), "protocol"))
	}
	return chains[0].Title, nil
}

// isMarkdown: the argument is written like the name of a Markdown file.
func isMarkdown(arg string) bool {
	switch strings.ToLower(filepath.Ext(arg)) {
	case ".md", ".markdown":
		return true
	}
	return false
}
