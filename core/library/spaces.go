package library

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// checkWrite refuses to change a chain that the caller can only read.
func checkWrite(c access.Caller, useCase string, chain protocol.Chain) error {
	if chain.Space == access.AppSpace {
		return fault.New(fault.SpaceReadOnly, "%q is built in and cannot be changed or deleted", chain.Title).
			WithNext("leave it as it is; for another procedure call kairos_mint with a title of its own")
	}
	return c.Check(useCase, chain.Space)
}

// mintSpace resolves the space to store in. No name, or "personal", means the
// caller's own space; a group is named "Group: x" or x, where x is its id or the
// last part of it.
func mintSpace(c access.Caller, name string) (string, error) {
	name = strings.TrimSpace(name)
	switch own := name == "" || strings.EqualFold(name, "personal"); {
	case isAppSpace(name), own && c.Space == access.AppSpace:
		return "", fault.New(fault.SpaceReadOnly, "the space of the built-in protocols is read-only").
			WithNext("leave space out to store in your own; kairos_spaces lists the others")
	case len(c.Own()) == 0, own && c.Space == "":
		return "", fault.New(fault.NoSpace, "you have no space of your own to store in").
			WithNext("call kairos_mint with space set to one of your groups; kairos_spaces lists them")
	case own:
		return c.Space, c.Check(api.Mint.Name, c.Space)
	}
	space, err := spaceNamed(c.Own(), name)
	if err != nil {
		return "", err
	}
	return space, c.Check(api.Mint.Name, space)
}

func isAppSpace(name string) bool {
	return strings.EqualFold(name, "kairos app") || name == access.AppSpace
}

// spaceNamed finds the space that is named by its id, by the last part of it, or
// by either after "Group:".
func spaceNamed(spaces []string, name string) (string, error) {
	ref, among := name, spaces
	if rest, ok := cutPrefixFold(name, "group:"); ok && !slices.Contains(spaces, name) {
		ref = strings.TrimSpace(rest)
		among = slices.DeleteFunc(slices.Clone(spaces), func(s string) bool { return !isGroup(s) })
	}
	for _, same := range []func(id string) bool{
		func(id string) bool { return id == ref },
		func(id string) bool { return lastPart(id) == ref },
		func(id string) bool { return strings.EqualFold(lastPart(id), ref) },
	} {
		switch found := slices.DeleteFunc(slices.Clone(among), func(id string) bool { return !same(id) }); len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return "", fault.New(fault.SpaceNotFound, "%q may be each of %s", plain.Clip(name, 80), strings.Join(found, ", ")).
				With("candidates", found).WithNext("repeat the call with the full id of the space you mean")
		}
	}
	return "", fault.New(fault.SpaceNotFound, "no space %q among yours", plain.Clip(name, 80)).
		WithNext("call kairos_spaces to see your spaces; without space it is your own")
}

func isGroup(id string) bool { return strings.HasPrefix(id, "group:") }

func lastPart(id string) string { return id[strings.LastIndex(id, ":")+1:] }

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// narrow returns the spaces that a search for one space may see: that space and
// the built-in protocols. The name is an id or a name from kairos_spaces.
func narrow(c access.Caller, name string) ([]string, error) {
	spaces := c.Spaces()
	name = strings.TrimSpace(name)
	switch {
	case name == "":
		return spaces, nil
	case isAppSpace(name):
		return []string{access.AppSpace}, nil
	case strings.EqualFold(name, "personal") && c.Reads(c.Space):
		return slices.Compact([]string{c.Space, access.AppSpace}), nil
	}
	space, err := spaceNamed(c.Own(), name)
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Details != nil {
		return nil, err
	}
	if err != nil {
		return nil, fault.New(fault.Forbidden, "space %q is not in your allowed spaces", plain.Clip(name, 80)).
			WithNext("call kairos_spaces to see your spaces; without space all of them are searched")
	}
	return []string{space, access.AppSpace}, nil
}

// spaceName is the display name of a space.
func spaceName(c access.Caller, space string) string {
	switch {
	case space == access.AppSpace:
		return "Kairos app"
	case isGroup(space):
		return "Group: " + groupRef(c, space)
	case space == c.Space && strings.HasPrefix(space, "user:"):
		return "Personal"
	}
	return strings.TrimPrefix(space, "space:")
}

// groupRef is the shortest unambiguous reference to a group.
func groupRef(c access.Caller, space string) string {
	for _, other := range c.Own() {
		if other != space && isGroup(other) && strings.EqualFold(lastPart(other), lastPart(space)) {
			return space
		}
	}
	return lastPart(space)
}

// How many titles kairos_spaces lists at a time.
const (
	titlesPage = 500  // default
	titlesMost = 1000 // at most
)

// Spaces lists the caller's spaces with the exact number of protocols in each and,
// on request, their titles page by page.
func (l *Library) Spaces(ctx context.Context, c access.Caller, in api.SpacesRequest) (api.SpacesReply, error) {
	if err := l.catalog.ready(ctx); err != nil {
		return api.SpacesReply{}, err
	}
	from, err := titlesFrom(c, in)
	if err != nil {
		return api.SpacesReply{}, err
	}
	left := min(cmp.Or(in.Limit, titlesPage), titlesMost)
	reply := api.SpacesReply{Spaces: []api.SpaceInfo{}}
	for _, space := range c.Spaces() {
		count, err := l.catalog.protocols.Count(ctx, space)
		if err != nil {
			return api.SpacesReply{}, fmt.Errorf("count the protocols of space %s: %w", space, err)
		}
		info := api.SpaceInfo{Name: spaceName(c, space), SpaceID: space, ChainCount: count}
		if in.Titles && reply.NextCursor == "" && (from.space == "" || from.space == space) {
			var next string
			if info.Chains, next, err = l.catalog.titles(ctx, space, from.cursor, left); err != nil {
				return api.SpacesReply{}, err
			}
			from = titlesPlace{}
			left -= len(info.Chains)
			if next != "" || left == 0 && len(info.Chains) == 0 && count > 0 {
				reply.NextCursor = titlesPlace{space, next}.String()
			}
		}
		reply.Spaces = append(reply.Spaces, info)
	}
	if reply.NextCursor != "" {
		more := map[string]any{"include_chain_titles": true, "cursor": reply.NextCursor}
		if in.Limit > 0 {
			more["limit"] = in.Limit
		}
		reply.NextCall = api.NewCall(api.ToolSpaces, more)
	}
	return reply, nil
}

// titlesPlace is where a page of titles begins.
type titlesPlace struct{ space, cursor string }

func (p titlesPlace) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.space + "\n" + p.cursor))
}

// titlesFrom reads a cursor. Its space is checked like any other.
func titlesFrom(c access.Caller, in api.SpacesRequest) (titlesPlace, error) {
	if in.Limit < 0 {
		return titlesPlace{}, fault.New(fault.InvalidArgument, "limit must not be negative")
	}
	if in.Cursor == "" {
		return titlesPlace{}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(in.Cursor)
	space, cursor, ok := strings.Cut(string(text), "\n")
	if err != nil || !ok || !c.Reads(space) {
		return titlesPlace{}, fault.New(fault.InvalidArgument, "cursor is not one that kairos_spaces gave you").
			WithNext("call kairos_spaces without cursor to start over").
			WithCall(api.ToolSpaces, map[string]any{"include_chain_titles": true})
	}
	return titlesPlace{space, cursor}, nil
}
