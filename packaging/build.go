package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

const lockName = driverhost.LockName

// release is what is packaged: everything below dir has the time changed.
type release struct {
	version string
	changed time.Time
	dir     string
}

func (r release) staged() string { return filepath.Join(r.dir, "staged") }

// platform is what one platform gets, by path in the archive.
type platform struct {
	os, arch string
	files    []file
}

type file struct {
	path string
	mode int64
	data []byte
}

func (p platform) name() string { return p.os + "/" + p.arch }

func (p *platform) add(path string, mode int64, data []byte) {
	p.files = append(p.files, file{path, mode, data})
	slices.SortFunc(p.files, func(a, b file) int { return strings.Compare(a.path, b.path) })
}

// build compiles the server and the drivers that the folder has for one platform,
// with the flags of the environment, and adds what else belongs to it.
func (r release) build(ctx context.Context, name, drivers string) (platform, error) {
	goos, arch, ok := strings.Cut(name, "/")
	if !ok {
		return platform{}, fmt.Errorf("platform %q is not GOOS/GOARCH", name)
	}
	p := platform{os: goos, arch: arch}
	lock, err := driverhost.ReadLock(filepath.Join(drivers, lockName))
	if err != nil {
		return platform{}, err
	}
	if err := r.compile(ctx, &p, "kairos", "./cmd/kairos", "-s -w -X main.version="+r.version); err != nil {
		return platform{}, err
	}
	for _, d := range lock.Drivers {
		source := "./plugins/" + strings.ReplaceAll(d.Name, "_", "")
		if err := r.compile(ctx, &p, "drivers/"+d.File, source, "-s -w"); err != nil {
			return platform{}, err
		}
	}
	others := map[string]string{"LICENSE": "LICENSE", "README.md": "packaging/README.md"}
	if goos == "linux" {
		others["kairos.service"] = "packaging/kairos.service"
	}
	for to, from := range others {
		b, err := os.ReadFile(from)
		if err != nil {
			return platform{}, err
		}
		p.add(to, 0o644, b)
	}
	ofModules, err := licenses(ctx, p)
	if err != nil {
		return platform{}, err
	}
	p.add("LICENSES.txt", 0o644, ofModules)
	return p, nil
}

func (r release) compile(ctx context.Context, p *platform, path, source, ldflags string) error {
	fmt.Printf("dist: %s for %s\n", filepath.Base(path), p.name())
	out := filepath.Join(r.staged(), p.os+"-"+p.arch, path)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", ldflags, "-o", out, source)
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", source, err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	p.add(path, 0o755, b)
	return nil
}

// lockOf is the lock of this machine's drivers with the sums of the binaries of
// every platform. A driver says the same of itself on all of them.
func lockOf(path string, all []platform) ([]byte, error) {
	lock, err := driverhost.ReadLock(path)
	if err != nil {
		return nil, err
	}
	for i := range lock.Drivers {
		d := &lock.Drivers[i]
		d.SHA256 = map[string]string{}
		for _, p := range all {
			at := slices.IndexFunc(p.files, func(f file) bool { return f.path == "drivers/"+d.File })
			sum := sha256.Sum256(p.files[at].data)
			d.SHA256[p.name()] = hex.EncodeToString(sum[:])
		}
	}
	if err := lock.Validate(); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(lock, "", "  ")
	return append(b, '\n'), err
}

var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)[^.]*(\.(md|txt))?$`)

// licenses returns the licenses of every module that the programs of a platform
// contain, of Go itself, and of the word vectors: most of them have to go with the binaries. A module
// without one is an error.
func licenses(ctx context.Context, p platform) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/kairos", "./plugins/...")
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch)
	cmd.Stderr = os.Stderr
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the modules: %w", err)
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(list))+"\nGo\t"+strings.TrimSpace(string(root)), "\n")
	slices.Sort(lines)
	var out bytes.Buffer
	for _, line := range slices.Compact(lines) {
		module, dir, ok := strings.Cut(line, "\t")
		if !ok || strings.HasPrefix(module, "github.com/kairos-mcp/") {
			continue // an empty line, or a module of this repository
		}
		if err := licensesOf(&out, module, dir); err != nil {
			return nil, err
		}
	}
	if err := licensesOf(&out, "The word vectors of kairos", "core/meaning"); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func licensesOf(out *bytes.Buffer, module, dir string) error {
	files, err := os.ReadDir(dir) // sorted
	if err != nil {
		return fmt.Errorf("licenses of %s: %w", module, err)
	}
	found := false
	for _, f := range files {
		if f.IsDir() || !licenseName.MatchString(f.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return fmt.Errorf("licenses of %s: %w", module, err)
		}
		fmt.Fprintf(out, "%s\n%s, %s\n%s\n\n%s\n\n", strings.Repeat("=", 80), module, f.Name(), strings.Repeat("=", 80), bytes.TrimSpace(text))
		found = true
	}
	if !found {
		return fmt.Errorf("module %s has no license file in %s: find out whether it may be distributed", module, dir)
	}
	return nil
}
