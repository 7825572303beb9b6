package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// archive writes DIR/kairos_VERSION_OS_ARCH.tar.gz.
func (r release) archive(p platform) error {
	name := fmt.Sprintf("kairos_%s_%s_%s", r.version, p.os, p.arch)
	var b bytes.Buffer
	z := gzip.NewWriter(&b) // its header has neither a name nor a time
	if err := writeTar(z, r.changed, name+"/", 0, p.files); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	path := filepath.Join(r.dir, name+".tar.gz")
	fmt.Printf("dist: %s, %d MB\n", path, b.Len()>>20)
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// writeTar writes the files and their folders below a prefix, as root's or as
// another user's; a path that ends in a slash is a folder.
func writeTar(w io.Writer, changed time.Time, prefix string, owner int, files []file) error {
	t := tar.NewWriter(w)
	made := map[string]bool{}
	folder := func(path string, mode int64) error {
		if made[path] {
			return nil
		}
		made[path] = true
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path, Mode: mode, Uid: owner, Gid: owner, ModTime: changed, Format: tar.FormatPAX})
	}
	for _, f := range files {
		path := prefix + f.path
		for i := range len(path) - 1 {
			if path[i] != '/' {
				continue
			}
			if err := folder(path[:i+1], 0o755); err != nil {
				return err
			}
		}
		if strings.HasSuffix(path, "/") {
			if err := folder(path, f.mode); err != nil {
				return err
			}
			continue
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: f.mode, Size: int64(len(f.data)), Uid: owner, Gid: owner, ModTime: changed, Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// sums writes DIR/SHA256SUMS, which sha256sum --check reads.
func (r release) sums() error {
	archives, err := filepath.Glob(filepath.Join(r.dir, "*.tar.gz")) // sorted
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, path := range archives {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), filepath.Base(path))
	}
	return os.WriteFile(filepath.Join(r.dir, "SHA256SUMS"), []byte(b.String()), 0o644)
}
