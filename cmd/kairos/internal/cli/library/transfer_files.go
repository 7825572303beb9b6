package library

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/documents"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// exportIndex is the file that makes a folder an export: a line of JSON, an
// exportLine, for each protocol.
const exportIndex = "kairos-export.jsonl"

const (
	historyFolder   = "history"
	maxIndexLine    = 1 << 30 // bytes: a hundred versions of 10,000 steps, and their ratings
	maxFileNameSlug = 60
)

// exportLine is one line of the index.
type exportLine struct {
	File string `json:"file"` // slash-separated, within the folder
	library.Record
	Older []exportLine `json:"older,omitempty"` // oldest first
}

// exportFolder is a folder that is being written. Files are whole or not there,
// and the index comes last.
type exportFolder struct {
	root   *os.Root
	old    []string // files of an earlier export
	index  bytes.Buffer
	names  map[string]bool
	report exportReport
}

// exportReport is what the command prints.
type exportReport struct {
	Protocols int `json:"protocols"`
	Older     int `json:"older_versions"`
}

// newExportFolder opens a folder that is empty or an export already.
func newExportFolder(dir string, force bool) (*exportFolder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the export: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the export: %w", err)
	}
	w := &exportFolder{root: root, names: map[string]bool{}}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		w.close()
		return nil, fmt.Errorf("look into the folder of the export: %w", err)
	}
	isExport := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == exportIndex })
	if len(entries) > 0 && !isExport && !force {
		w.close()
		return nil, fmt.Errorf("%s is not empty and not an export; name another folder, or use --force to write into it", dir)
	}
	if isExport {
		lines, _ := readIndex(root) // what cannot be read is left where it is
		for _, l := range lines {
			w.old = append(w.old, l.files()...)
		}
	}
	return w, nil
}

func (l exportLine) files() []string {
	out := []string{l.File}
	for _, o := range l.Older {
		out = append(out, o.files()...)
	}
	return out
}

func (w *exportFolder) close() { _ = w.root.Close() }

func (w *exportFolder) add(p library.Written) error {
	line := exportLine{File: w.nameOf(p.Record), Record: p.Record}
	if err := w.write(line.File, []byte(p.Document)); err != nil {
		return err
	}
	for _, o := range p.Older {
		stem := strings.TrimSuffix(line.File, ".md")
		old := exportLine{File: path.Join(historyFolder, stem, fmt.Sprintf("%d.md", o.Record.Revision)), Record: o.Record}
		if err := w.root.MkdirAll(path.Dir(old.File), 0o755); err != nil {
			return fmt.Errorf("make the folder of older versions: %w", err)
		}
		if err := w.write(old.File, []byte(o.Document)); err != nil {
			return err
		}
		line.Older = append(line.Older, old)
		w.report.Older++
	}
	w.report.Protocols++
	enc := json.NewEncoder(&w.index)
	enc.SetEscapeHTML(false)
	return enc.Encode(line)
}

// nameOf is a file name that people recognise and no other protocol has.
func (w *exportFolder) nameOf(r library.Record) string {
	stem := cmp.Or(protocol.Hyphenated(r.Title, maxFileNameSlug), "protocol") + "-" + r.ChainID[:min(8, len(r.ChainID))]
	name := stem + ".md"
	for n := 2; w.names[name]; n++ {
		name = fmt.Sprintf("%s-%d.md", stem, n)
	}
	w.names[name] = true
	return name
}

// write writes a file whole or not at all.
func (w *exportFolder) write(name string, b []byte) error {
	temporary := name + ".part"
	err := w.root.WriteFile(temporary, b, 0o644)
	if err == nil {
		err = w.root.Rename(temporary, name)
	}
	if err != nil {
		_ = w.root.Remove(temporary)
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// finish writes the index and removes what only an earlier export had.
func (w *exportFolder) finish() error {
	if err := w.write(exportIndex, w.index.Bytes()); err != nil {
		return err
	}
	lines, err := readIndex(w.root)
	if err != nil {
		return fmt.Errorf("read back what was written: %w", err)
	}
	now := map[string]bool{}
	for _, l := range lines {
		for _, f := range l.files() {
			now[f] = true
		}
	}
	for _, f := range w.old {
		if now[f] || !strings.HasSuffix(f, ".md") || !filepath.IsLocal(f) {
			continue
		}
		if err := w.root.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s, which is not a protocol any more: %w", f, err)
		}
	}
	return nil
}

// readIndex reads the lines of an index. With an error come those that could
// be read.
func readIndex(root *os.Root) (lines []exportLine, err error) {
	f, err := files.Open(root.OpenFile, exportIndex)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, maxIndexLine)
	for n := 1; scan.Scan(); n++ {
		if len(bytes.TrimSpace(scan.Bytes())) == 0 {
			continue
		}
		var l exportLine
		if bad := json.Unmarshal(scan.Bytes(), &l); bad != nil {
			err = errors.Join(err, fmt.Errorf("line %d: %w", n, bad))
			continue
		}
		lines = append(lines, l)
	}
	if bad := scan.Err(); bad != nil {
		err = errors.Join(err, bad)
	}
	return lines, err
}

// sourceFiles are the documents that an import reads.
type sourceFiles struct {
	documents.Documents // the folders; the documents are in files
	files               []sourceFile
}

// sourceFile is one of them.
type sourceFile struct {
	documents.Document
	line *exportLine         // nil: no record
	err  error               // why it cannot be read
	item *library.ImportItem // what it holds, where it is not a file
}

// importSources finds what the arguments name.
func importSources(args []string) (*sourceFiles, error) {
	s := &sourceFiles{}
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("look for protocols: %w", err)
		}
		if !info.IsDir() {
			s.files = append(s.files, sourceFile{Document: documents.Document{Name: arg}})
			continue
		}
		if err := s.addFolder(arg); err != nil {
			s.Close()
			return nil, err
		}
	}
	if len(s.files) == 0 {
		return nil, fmt.Errorf("no protocol in %s", strings.Join(args, ", "))
	}
	return s, nil
}

func (s *sourceFiles) addFolder(dir string) error {
	root, err := s.OpenFolder(dir)
	if err != nil {
		return err
	}
	lines, err := readIndex(root)
	if errors.Is(err, fs.ErrNotExist) {
		below, err := s.MarkdownBelow(dir, root)
		// Of an export without its index the newest versions, which lie above the older ones, come first.
		slices.SortStableFunc(below, func(a, b documents.Document) int {
			return strings.Count(a.Path, "/") - strings.Count(b.Path, "/")
		})
		for _, f := range below {
			s.files = append(s.files, sourceFile{Document: f})
		}
		return err
	}
	broken := err != nil
	if broken {
		s.files = append(s.files, sourceFile{Document: documents.Document{Name: filepath.Join(dir, exportIndex)}, err: err})
	}
	listed := map[string]bool{}
	for i := range lines {
		l := &lines[i]
		f := sourceFile{Document: documents.Document{Name: filepath.Join(dir, filepath.FromSlash(l.File)), Root: root, Path: l.File}, line: l}
		if listed[l.File] {
			f.err = fmt.Errorf("%s lists it twice", exportIndex)
		}
		listed[l.File] = true
		s.files = append(s.files, f)
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return fmt.Errorf("look into %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.IsDir() || listed[e.Name()] || !strings.EqualFold(filepath.Ext(e.Name()), ".md") {
			continue
		}
		f := sourceFile{Document: documents.Document{Name: filepath.Join(dir, e.Name()), Root: root, Path: e.Name()}}
		if broken {
			// Its line may be the one that cannot be read: it would lose its identity.
			f.err = fmt.Errorf("%s is damaged and does not list it; import it alone if it is a new one", exportIndex)
		}
		s.files = append(s.files, f)
	}
	return nil
}

// read reads a document, with its record and its older versions.
func (s *sourceFiles) read(ctx context.Context, f sourceFile) (library.ImportItem, error) {
	switch {
	case f.err != nil:
		return library.ImportItem{}, f.err
	case f.item != nil:
		return *f.item, nil
	case f.line == nil:
		b, err := f.Read(ctx, nil)
		return library.ImportItem{Document: string(b), File: f.File()}, err
	}
	whole, err := f.listed(ctx, f.Path)
	item := library.ImportItem{Document: whole, Record: &f.line.Record}
	for _, o := range f.line.Older {
		if err != nil {
			return item, err
		}
		old, oldErr := f.listed(ctx, o.File)
		if oldErr != nil {
			err = fmt.Errorf("an older version: %w", oldErr)
		}
		item.Older = append(item.Older, library.Written{Record: o.Record, Document: old})
	}
	return item, err
}

// listed reads a file that the index of the folder names.
func (f sourceFile) listed(ctx context.Context, name string) (string, error) {
	if !filepath.IsLocal(name) || !strings.EqualFold(path.Ext(name), ".md") {
		return "", fmt.Errorf("%s names the file %.80q, which is not an .md file within the folder", exportIndex, name)
	}
	b, err := documents.Document{Name: name, Root: f.Root, Path: name}.Read(ctx, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s lists %s, which does not exist: bring the file back, or export again", exportIndex, name)
	}
	return string(b), err
}

// formerSources are the protocols of a collection in Qdrant.
func formerSources(ctx context.Context, a *app.App, url, collection string, warn io.Writer) (*sourceFiles, error) {
	s := &sourceFiles{}
	problems, err := a.FormerProtocols(ctx, url, collection, func(title string, item *library.ImportItem) {
		s.files = append(s.files, sourceFile{Document: documents.Document{Name: fmt.Sprintf("%q", title)}, item: item})
	})
	for _, p := range problems {
		output.Tell(warn, "%s\n", p)
	}
	return s, err
}
