package static

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/kairos-mcp/kairos/core/library"
)

// The files of a model, by the names that model2vec gives them.
const (
	tableFile     = "model.safetensors"
	tokenizerFile = "tokenizer.json"
	configFile    = "config.json"
)

// The largest files that are read. Models have tables of up to 1 GiB and
// tokenizers of a few megabytes.
const (
	maxTableFile = 4 << 30
	maxTextFile  = 64 << 20
)

// maxTokens is how many tokens of a text count, as in model2vec.
const maxTokens = 512

// revision is part of every model's name. Raise it if the same files and text give
// other vectors than before.
const revision = "1"

// Model is a loaded model. It is safe for concurrent use.
type Model struct {
	table     table
	tokenizer *tokenizer
	digest    [sha256.Size]byte // of everything that affects vectors
}

// Check reports which of a model's files are missing, without reading them.
func Check(folder string) error {
	var errs []error
	for _, name := range []string{tableFile, tokenizerFile, configFile} {
		errs = append(errs, regular(filepath.Join(folder, name)))
	}
	return errors.Join(errs...)
}

func regular(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}

// Load reads and checks the model in a folder. The table is mapped into memory
// and not copied; its files must not be changed while the model is in use.
func Load(folder string) (*Model, error) {
	if err := Check(folder); err != nil {
		return nil, fmt.Errorf("find the model: %w", err)
	}
	sum := sha256.New()
	sum.Write([]byte("kairos static embedding " + revision + "\n"))
	if err := readConfig(filepath.Join(folder, configFile)); err != nil {
		return nil, err
	}
	t, err := readTokenizer(filepath.Join(folder, tokenizerFile), sum)
	if err != nil {
		return nil, err
	}
	m := &Model{tokenizer: t}
	if err := m.mapTable(filepath.Join(folder, tableFile), sum); err != nil {
		return nil, err
	}
	sum.Sum(m.digest[:0])
	if tokens := len(t.tokens); tokens != m.table.rows {
		return nil, fmt.Errorf("%s has %d tokens but %s has %d vectors; take both from the same model", tokenizerFile, tokens, tableFile, m.table.rows)
	}
	return m, nil
}

// readConfig checks config.json. Its scaling option does not matter here, because
// every vector is scaled to length 1.
func readConfig(path string) error {
	b, err := readText(path)
	if err != nil {
		return err
	}
	var config struct {
		Normalize    *bool `json:"normalize"`
		Quantization any   `json:"vocabulary_quantization"`
	}
	if err := json.Unmarshal(b, &config); err != nil {
		return fmt.Errorf("read %s: %w", configFile, err)
	}
	if config.Quantization != nil {
		return fmt.Errorf("%s says vocabulary_quantization, which is not supported; take a model with one vector for each token", configFile)
	}
	return nil
}

func readTokenizer(path string, sum hash.Hash) (*tokenizer, error) {
	b, err := readText(path)
	if err != nil {
		return nil, err
	}
	sum.Write(b)
	t, err := parseTokenizer(b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", tokenizerFile, err)
	}
	return t, nil
}

func readText(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, maxTextFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxTextFile {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxTextFile>>20)
	}
	return b, nil
}

// mapTable maps the file, and unmaps it once the model is no longer in use.
func (m *Model) mapTable(path string, sum hash.Hash) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // a mapping stays
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if size := info.Size(); size < headerStart || size > min(maxTableFile, math.MaxInt) {
		return fmt.Errorf("read %s: it has %d bytes, which no table of vectors has", tableFile, size)
	}
	data, err := mapFile(f, int(info.Size()))
	if err != nil {
		return fmt.Errorf("map %s into memory: %w", path, err)
	}
	runtime.AddCleanup(m, unmap, data)
	return guarded(func() error {
		sum.Write(data)
		m.table, err = parseTable(data)
		if err != nil {
			return fmt.Errorf("read %s: %w", tableFile, err)
		}
		return nil
	})
}

// errChanged reports that the system cannot deliver a part of a mapped file.
var errChanged = fmt.Errorf("%s became shorter or unreadable while it was in use; restore the folder of the model and start again", tableFile)

// guarded runs a function that reads a mapped file. A file that is truncated
// meanwhile is an error and does not crash the process.
func guarded(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if _, fault := p.(interface{ Addr() uintptr }); !fault {
			panic(p)
		}
		err = errChanged
	}()
	return read()
}

// Name identifies the model for stored vectors: the same files give the same
// name, in whichever folder they are.
func (m *Model) Name() string { return fmt.Sprintf("static/%x/%d", m.digest[:8], m.table.dimension) }

// Tokens is how many tokens the vocabulary has.
func (m *Model) Tokens() int { return m.table.rows }

// Dimension is how many numbers a vector has.
func (m *Model) Dimension() int { return m.table.dimension }

// Tokenize lists the tokens that a text has for the model, unknown ones included.
func (m *Model) Tokenize(text string) []string {
	ids := m.tokenizer.ids(text)
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = m.tokenizer.tokens[id]
	}
	return out
}

// Vector returns the vector of a text, with length 1. A text without any token
// that the model knows is library.ErrTextRefused.
func (m *Model) Vector(text string) ([]float32, error) {
	ids := m.tokenizer.known(text)
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: the model knows none of its words", library.ErrTextRefused)
	}
	out := make([]float32, m.table.dimension)
	err := guarded(func() error {
		for _, id := range ids {
			m.table.add(out, int(id))
		}
		return nil
	})
	runtime.KeepAlive(m)
	if err != nil {
		return nil, err
	}
	return out, unit(out)
}

// unit scales a sum of vectors to length 1. The mean has the same direction.
func unit(v []float32) error {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	length := math.Sqrt(sum)
	if length == 0 || math.IsInf(length, 0) || math.IsNaN(length) {
		return fmt.Errorf("%w: the vectors of its words have no direction together", library.ErrTextRefused)
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / length)
	}
	return nil
}
