package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
)

// maxListed bounds the roots of a client.
const maxListed = 64

// where is what decides into which folders a look goes.
type where struct {
	client driver.Client
	listed []string // the client's roots
	unread string   // why a root that the client lists is not among them; empty: all are
}

// folder is one to look into: below base, which cannot be left. Below is "."
// or a path in it.
type folder struct{ base, below string }

func (f folder) path() string { return filepath.Join(f.base, f.below) }

// folders says into which folders a look goes, or why into none. The client's
// roots count as they are on this machine; from elsewhere they and the roots
// that the run began with only choose among what the operator allows. The run's
// own count by themselves where nobody else has said anything.
func (w where) folders(allow, begun []string) ([]folder, string) {
	dirs := fixed(allow)
	var chosen [][]string
	switch {
	case !filecheck.Local(w.client):
		if len(dirs) == 0 {
			return nil, "the client is not on this machine, and the operator allows no folder to be looked into"
		}
		chosen = [][]string{w.listed, begun}
	case len(w.listed) > 0:
		dirs, chosen = fixed(w.listed), [][]string{begun}
	case len(dirs) > 0:
		chosen = [][]string{begun}
	case len(begun) > 0 && !w.client.Roots:
		dirs = fixed(begun)
	case w.unread != "":
		return nil, "the folders that the client lists cannot be looked into: " + w.unread
	default:
		return nil, "nobody has said into which folders to look: the client lists no roots, the run began with none, and none is allowed"
	}
	for _, choice := range chosen {
		if len(choice) == 0 {
			continue
		}
		if dirs = within(dirs, choice); len(dirs) == 0 {
			return nil, "none of the named roots lies inside a folder that may be looked into"
		}
	}
	return dirs, ""
}

func fixed(dirs []string) []folder {
	var out []folder
	for _, dir := range dirs {
		out = append(out, folder{base: filepath.Clean(dir), below: "."})
	}
	return out
}

// within keeps of the choice what lies inside one of the folders. It compares
// names alone: a stranger's path is never looked up to find out.
func within(dirs []folder, choice []string) []folder {
	var out []folder
	for _, path := range choice {
		for _, dir := range dirs {
			if rel, ok := inside(dir, path); ok {
				out = append(out, folder{base: dir.base, below: filepath.Join(dir.below, rel)})
				break
			}
		}
	}
	return slices.Compact(out)
}

// inside is the path relative to the folder, under its name or its real one.
func inside(dir folder, path string) (string, bool) {
	names := []string{dir.path()}
	if real, err := filepath.EvalSymlinks(dir.path()); err == nil {
		names = append(names, real)
	}
	for _, name := range names {
		if path == name {
			return ".", true
		}
		if rel, ok := strings.CutPrefix(path, strings.TrimSuffix(name, "/")+"/"); ok {
			return rel, true
		}
	}
	return "", false
}

// readRoots reads the reply to roots/list. Roots that are not folders of this
// machine are left out; unread says why the first of them is not one.
func readRoots(raw json.RawMessage) (roots []string, unread string, problems []driver.Diagnostic) {
	o := fields.Open(raw, "")
	list := o.Raw("roots")
	if problems := o.Problems(); problems != nil {
		return nil, "", problems
	}
	var entries []json.RawMessage
	if len(list) == 0 || list[0] != '[' || json.Unmarshal(list, &entries) != nil {
		return nil, "", []driver.Diagnostic{driver.Problem("/roots", "must be a list of roots, each with a uri")}
	}
	for i, raw := range entries[:min(len(entries), maxListed)] {
		e := fields.Open(raw, fields.Pointer("roots", fmt.Sprint(i)))
		uri, found := e.String("uri")
		if !found && len(e.Problems()) == 0 {
			e.Wrong("uri", "is missing")
		}
		if problems := e.Problems(); problems != nil {
			return nil, "", problems
		}
		root, err := filecheck.Root(uri)
		switch {
		case err == nil:
			roots = append(roots, root)
		case unread == "":
			unread = err.Error()
		}
	}
	return roots, unread, nil
}
