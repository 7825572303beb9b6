package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// document is a Markdown file that a command was given, or found in a folder
// that it was given.
type document struct {
	name string   // for people; "-" is standard input
	root *os.Root // of the folder; nil: name is the path
	path string   // within root
}

// documents are the files that the arguments name. The caller must call close
// once it has read them, also after an error.
type documents struct {
	files []document
	roots []*os.Root
}

func (d *documents) close() {
	for _, r := range d.roots {
		_ = r.Close() // was only read
	}
}

// openFolder opens a folder; links that lead out of it cannot be followed.
func (d *documents) openFolder(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	d.roots = append(d.roots, root)
	return root, nil
}

// find adds the files that the arguments name: of a folder the .md files below it.
func (d *documents) find(args []string) error {
	for _, arg := range args {
		if info, err := os.Stat(arg); arg == "-" || err != nil || !info.IsDir() {
			d.files = append(d.files, document{name: arg}) // reading it reports what is wrong
			continue
		}
		root, err := d.openFolder(arg)
		if err != nil {
			return err
		}
		below, err := markdownBelow(arg, root)
		if err != nil {
			return err
		}
		if len(below) == 0 {
			return fmt.Errorf("no .md file in the folder %s", arg)
		}
		d.files = append(d.files, below...)
	}
	return nil
}

// markdownBelow lists the .md files of a folder, except in hidden folders.
func markdownBelow(dir string, root *os.Root) ([]document, error) {
	var files []document
	err := fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && strings.EqualFold(filepath.Ext(path), ".md"):
			files = append(files, document{name: filepath.Join(dir, filepath.FromSlash(path)), root: root, path: path})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for protocols: %w", err)
	}
	return files, nil
}

// read reads the document, at most a byte more than is allowed: the parser says
// what the limit is.
func (d document) read(ctx context.Context, stdin io.Reader) ([]byte, error) {
	from := stdin
	if d.root != nil || d.name != "-" {
		f, err := d.open()
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // only read
		from = f
	}
	return readAtMost(ctx, from, protocol.MaxDocument+1)
}

func (d document) open() (*os.File, error) {
	if d.root != nil {
		return openRegular(d.root.OpenFile, d.path)
	}
	f, err := openRegular(os.OpenFile, d.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no such file: %s", d.name)
	case errors.Is(err, errNotRegular):
		return nil, fmt.Errorf("%w; give a pipe as -, from standard input", err)
	}
	return f, err
}
