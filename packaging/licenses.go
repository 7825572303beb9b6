package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)[^.]*(\.(md|txt))?$`)

// licenses returns the licenses of every module that the programs of a platform
// contain, and of Go itself: most of them have to go with the binaries. A module
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
