// Package documents reads the Markdown files that the arguments of a command name.
package documents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// Document is a Markdown file that a command was given, or found in a folder
// that it was given.
type Document struct {
	Name string   // for people; "-" is standard input
	Root *os.Root // of the folder; if nil, Name is the path
	Path string   // within root
}

// Documents are the files that the arguments name. The caller must call close
// once it has read them, also after an error.
type Documents struct {
	Files []Document
	// Skipped are the hidden folders in which nobody looked.
	Skipped []string
	roots   []*os.Root
}

// Close closes the folders.
func (d *Documents) Close() {
	for _, r := range d.roots {
		_ = r.Close() // was only read
	}
}

// OpenFolder opens a folder; links that lead out of it cannot be followed.
func (d *Documents) OpenFolder(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	d.roots = append(d.roots, root)
	return root, nil
}

// Find adds the files that the arguments name: of a folder the .md files below it.
func (d *Documents) Find(args []string) error {
	for _, arg := range args {
		if info, err := os.Stat(arg); arg == "-" || err != nil || !info.IsDir() {
			d.Files = append(d.Files, Document{Name: arg}) // reading it reports what is wrong
			continue
		}
		root, err := d.OpenFolder(arg)
		if err != nil {
			return err
		}
		below, err := d.MarkdownBelow(arg, root)
		if err != nil {
			return err
		}
		if len(below) == 0 {
			return fmt.Errorf("no .md file in the folder %s%s", arg, strings.TrimSuffix("; "+d.SkippedInWords(), "; "))
		}
		d.Files = append(d.Files, below...)
	}
	return nil
}

// versionControl are hidden folders in which nobody keeps protocols.
var versionControl = []string{".git", ".hg", ".svn", ".jj"}

// SkippedInWords names the hidden folders that were skipped; empty: there are none.
func (d *Documents) SkippedInWords() string {
	const most = 10
	if len(d.Skipped) == 0 {
		return ""
	}
	named := strings.Join(d.Skipped[:min(len(d.Skipped), most)], ", ")
	if more := len(d.Skipped) - most; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return "hidden folders are skipped unless they are named: " + named
}

// MarkdownBelow lists the Markdown files of a folder, except in hidden folders, which it
// adds to those that were skipped.
func (d *Documents) MarkdownBelow(dir string, root *os.Root) ([]Document, error) {
	var files []Document
	err := fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			if !slices.Contains(versionControl, entry.Name()) {
				d.Skipped = append(d.Skipped, filepath.Join(dir, filepath.FromSlash(path)))
			}
			return fs.SkipDir
		case !entry.IsDir() && IsMarkdown(path):
			files = append(files, Document{Name: filepath.Join(dir, filepath.FromSlash(path)), Root: root, Path: path})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for protocols: %w", err)
	}
	return files, nil
}

// File is the name of the file; empty for standard input.
func (d Document) File() string {
	if d.Root == nil && d.Name == "-" {
		return ""
	}
	return d.Name
}

// Read reads the document, at most a byte more than is allowed: the parser says
// what the limit is.
func (d Document) Read(ctx context.Context, stdin io.Reader) ([]byte, error) {
	from := stdin
	if d.Root != nil || d.Name != "-" {
		f, err := d.open()
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // only read
		from = f
	}
	return files.ReadAtMost(ctx, from, protocol.MaxDocument+1)
}

func (d Document) open() (*os.File, error) {
	if d.Root != nil {
		return files.Open(d.Root.OpenFile, d.Path)
	}
	f, err := files.Open(os.OpenFile, d.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no such file: %s", d.Name)
	case errors.Is(err, files.ErrNotRegular):
		return nil, fmt.Errorf("%w; give a pipe as -, from standard input", err)
	}
	return f, err
}

// IsMarkdown reports whether the argument is written like the name of a Markdown file.
func IsMarkdown(arg string) bool {
	switch strings.ToLower(filepath.Ext(arg)) {
	case ".md", ".markdown":
		return true
	}
	return false
}
