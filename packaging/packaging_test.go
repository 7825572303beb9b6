package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// The release of this machine's platform is what a person downloads: they unpack
// it, and the main job works.
func TestTheArchiveDoesTheMainJob(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: builds every program; make test runs it without the race detector")
	}
	t.Chdir("..")
	bin, dir, changed := t.TempDir(), filepath.Join(t.TempDir(), "dist"), time.Unix(1700000000, 0).UTC()
	output(t, exec.CommandContext(t.Context(), "make", "build", "BIN="+bin))
	name := runtime.GOOS + "/" + runtime.GOARCH
	if err := run(t.Context(), "9.8.7", []string{name}, filepath.Join(bin, "drivers"), changed, dir); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, fmt.Sprintf("kairos_9.8.7_%s_%s.tar.gz", runtime.GOOS, runtime.GOARCH))
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if want := fmt.Sprintf("%x  %s\n", sha256.Sum256(b), filepath.Base(archive)); err != nil || string(sums) != want {
		t.Errorf("SHA256SUMS = %q, %v, want %q", sums, err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "staged")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the staged files are still there: %v", err)
	}

	home := t.TempDir()
	top := filepath.Join(home, strings.TrimSuffix(filepath.Base(archive), ".tar.gz"))
	unpack(t, b, home, changed)
	kairos := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(top, "kairos"), args...)
		cmd.Dir = home
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "KAIROS_DB=" + filepath.Join(home, "data", "kairos.db")}
		return output(t, cmd)
	}
	if got := kairos("--version"); !strings.Contains(got, "9.8.7") {
		t.Errorf("kairos --version prints %q", got)
	}
	texts, err := os.ReadFile(filepath.Join(top, "LICENSES.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"\nGo, LICENSE\n", "\ngithub.com/mark3labs/mcp-go v", "\nmodernc.org/sqlite v", "\ngoogle.golang.org/grpc v", "Mozilla Public License", "GRAYPE Systems"} {
		if !strings.Contains(string(texts), of) {
			t.Errorf("LICENSES.txt does not have %q", of)
		}
	}
	if strings.Contains(string(texts), "kairos-mcp") {
		t.Error("LICENSES.txt has the modules of this repository")
	}
	if err := os.WriteFile(filepath.Join(home, "answers.yaml"), []byte("rules:\n"+
		"  - {on: elicitation, after: 1s, match: may the release go out, answer: {day: tuesday, watcher: Dora}}\n"+
		"  - {on: elicitation, after: 1s, match: watching, answer: approved}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	example, err := filepath.Abs("examples/user-input.md")
	if err != nil {
		t.Fatal(err)
	}
	got := kairos("run", example, "--script", "answers.yaml")
	if !strings.Contains(got, "\nverified: both steps answered by a person\n") {
		t.Errorf("kairos run prints\n%s", got)
	}
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// unpack unpacks an archive as tar does, and looks at what could differ from one
// build to the next.
func unpack(t *testing.T, b []byte, dir string, changed time.Time) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(changed) || h.Uid != 0 || h.Mode&0o022 != 0 {
			t.Errorf("%s: changed %s, user %d, mode %o", h.Name, h.ModTime, h.Uid, h.Mode)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, h.FileInfo().Mode().Perm())
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, data, h.FileInfo().Mode().Perm())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What is packaged depends on the files and the time of the commit alone, and
// the image is one that other tools read, which does not run as root.
func TestTheSameFilesGiveTheSameRelease(t *testing.T) {
	var all [2]map[string]string
	for i := range all {
		r := release{version: "1.0.0", changed: time.Unix(1700000000, 0).UTC(), dir: t.TempDir()}
		var platforms []platform
		for _, arch := range []string{"amd64", "arm64"} {
			p := platform{os: "linux", arch: arch}
			p.add("kairos", 0o755, []byte("server of "+arch))
			p.add("drivers/kairos-driver-shell", 0o755, []byte("driver of "+arch))
			platforms = append(platforms, p)
		}
		mac := platform{os: "darwin", arch: "arm64"}
		mac.add("kairos", 0o755, []byte("server of a Mac"))
		platforms = append(platforms, mac)
		for _, p := range platforms {
			if err := r.archive(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(r.image(platforms), r.sums()); err != nil {
			t.Fatal(err)
		}
		all[i] = contents(t, r.dir)

		index, err := layout.ImageIndexFromPath(filepath.Join(r.dir, "oci"))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Error(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 2 {
			t.Fatalf("the index has %d images, %v, want one for each Linux platform", len(manifest.Manifests), err)
		}
		for _, m := range manifest.Manifests {
			image, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			c, err := image.ConfigFile()
			if err != nil || c.Config.User != "65532:65532" || c.Architecture != m.Platform.Architecture {
				t.Errorf("the image of %v runs as %q, %v", m.Platform, c.Config.User, err)
			}
		}
	}
	if diff := cmp.Diff(all[0], all[1]); diff != "" {
		t.Error(diff)
	}
}

// contents are the sums of the files below a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path) // below dir
		sums[rel] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

func TestAModuleWithoutALicenseIsRefused(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	if err := licensesOf(&out, "example.org/m v1.0.0", dir); err == nil || !strings.Contains(err.Error(), "example.org/m v1.0.0 has no license file") {
		t.Errorf("err = %v", err)
	}
	for name, text := range map[string]string{"COPYING.md": "Do as you like.\n", "Notice": "By us.", "licenses.go": "package m"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := licensesOf(&out, "example.org/m v1.0.0", dir); err != nil || !strings.Contains(out.String(), "Do as you like.\n\n") || !strings.Contains(out.String(), "By us.") {
		t.Errorf("licenses = %q, %v", out.String(), err)
	}
	if strings.Contains(out.String(), "package m") {
		t.Error("a Go file counts as a license")
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ version, platform, drivers, dir string }{
		"no version":           {"", "linux/amd64", ".", "x"},
		"no folder":            {"1.0.0", "linux/amd64", ".", ""},
		"no platform":          {"1.0.0", "linux", ".", "x"},
		"no lock in drivers":   {"1.0.0", "linux/amd64", ".", "x"},
		"no folder of drivers": {"1.0.0", "linux/amd64", "nowhere", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tc.dir
			if dir != "" {
				dir = filepath.Join(t.TempDir(), dir)
			}
			if err := run(t.Context(), tc.version, []string{tc.platform}, tc.drivers, time.Unix(0, 0), dir); err == nil {
				t.Error("it was not refused")
			}
		})
	}
}
