// Command packaging makes what people install: for each platform an archive with
// the server, its drivers and drivers.lock, for Linux an OCI image layout as well,
// and the checksums of the archives. The same commit gives the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nobody is the user and the group that the image runs as.
const nobody = 65532

// image writes the OCI image layout DIR/oci: an index with an image for each Linux
// platform (https://github.com/opencontainers/image-spec, image-layout.md).
func (r release) image(all []platform) error {
	var images []mutate.IndexAddendum
	for _, p := range all {
		if p.os != "linux" {
			continue
		}
		image, err := r.imageOf(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name(), err)
		}
		images = append(images, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform:    &v1.Platform{OS: p.os, Architecture: p.arch},
			Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version},
		}})
	}
	if len(images) == 0 {
		return nil
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), images...)
	_, err := layout.Write(filepath.Join(r.dir, "oci"), index)
	return err
}

// imageOf has the archive's files in /opt/kairos, a folder for the database that
// the user of the image owns, and nothing else: no shell, no package manager.
func (r release) imageOf(p platform) (v1.Image, error) {
	var program, data bytes.Buffer
	if err := writeTar(&program, r.changed, "opt/kairos/", 0, p.files); err != nil {
		return nil, err
	}
	if err := writeTar(&data, r.changed, "", nobody, []file{{path: "data/", mode: 0o700}, {path: "tmp/", mode: 0o1777}}); err != nil {
		return nil, err
	}
	image := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	for _, b := range []*bytes.Buffer{&program, &data} {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(b.Bytes())), nil
		}, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, err
		}
	}
	return mutate.ConfigFile(image, &v1.ConfigFile{
		OS: p.os, Architecture: p.arch, Created: v1.Time{Time: r.changed},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: diffIDs(image)},
		Config: v1.Config{
			User: fmt.Sprintf("%d:%d", nobody, nobody), WorkingDir: "/data",
			Entrypoint: []string{"/opt/kairos/kairos"}, Cmd: []string{"serve"},
			Env:     []string{"KAIROS_DB=/data/kairos.db", "HOME=/data", "PATH=/opt/kairos"},
			Volumes: map[string]struct{}{"/data": {}},
			Labels:  map[string]string{"org.opencontainers.image.title": "KAIROS", "org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "Apache-2.0"},
		},
	})
}

func diffIDs(image v1.Image) []v1.Hash {
	c, err := image.ConfigFile()
	if err != nil {
		return nil // the next call that needs the layers says why
	}
	return c.RootFS.DiffIDs
}

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

func main() {
	version := flag.String("version", "", "version of the release")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/arm64", "GOOS/GOARCH pairs, separated by commas")
	drivers := flag.String("drivers", "bin/drivers", "folder of the drivers of this machine, with their drivers.lock")
	changed := flag.Int64("changed", 0, "time of the commit, in seconds since 1970; all files have it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *version, strings.Split(*platforms, ","), *drivers, time.Unix(*changed, 0).UTC(), flag.Arg(0))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, version string, platforms []string, drivers string, changed time.Time, dir string) error {
	if version == "" || dir == "" {
		return errors.New("usage: packaging -version VERSION [-platforms LIST] [-changed SECONDS] DIR")
	}
	r := release{version: version, changed: changed, dir: dir}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the former release: %w", err)
	}
	var all []platform
	for _, name := range platforms {
		p, err := r.build(ctx, name, drivers)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, p)
	}
	// Each lock has the sums of every platform, so all of them are built by now.
	lock, err := lockOf(filepath.Join(drivers, lockName), all)
	if err != nil {
		return fmt.Errorf("drivers.lock: %w", err)
	}
	for i := range all {
		all[i].add("drivers/"+lockName, 0o644, lock)
		if err := r.archive(all[i]); err != nil {
			return fmt.Errorf("%s: %w", all[i].name(), err)
		}
	}
	if err := r.image(all); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := os.RemoveAll(r.staged()); err != nil {
		return fmt.Errorf("remove what was staged: %w", err)
	}
	return r.sums()
}
