package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Clients that a look is for.
var (
	stdio   = driver.Client{Name: "c", Transport: "stdio", Roots: true}
	rootles = driver.Client{Name: "c", Transport: "stdio"}
	remote  = driver.Client{Name: "c", Transport: "http"}
	lister  = driver.Client{Name: "c", Transport: "http", Roots: true}
)

// began is when the runs of these tests began.
var began = time.Date(2026, 3, 4, 5, 6, 7, 500_000_000, time.UTC)

func demanding(files string, roots ...string) driver.Input {
	display, err := json.Marshal(map[string]any{"files": json.RawMessage(files), "roots": roots, "since": began})
	if err != nil {
		panic(err) // the tests' own lists are JSON
	}
	return driver.Input{ID: "files", Kind: driver.KindFiles, Type: "shell", Display: display}
}

// listed is the reply of a client with these roots.
func listed(dirs ...string) json.RawMessage {
	type root struct {
		URI string `json:"uri"`
	}
	roots := []root{}
	for _, dir := range dirs {
		roots = append(roots, root{"file://" + dir})
	}
	raw, err := json.Marshal(map[string]any{"roots": roots})
	if err != nil {
		panic(err) // unreachable: strings
	}
	return raw
}

// configured is the driver with a configuration.
func configured(t *testing.T, config string) driver.Capability {
	t.Helper()
	d := definition()
	found, err := d.Capability.(driver.Configurer).Configure(context.Background(), json.RawMessage(config), false)
	if err != nil || len(found) > 0 {
		t.Fatalf("Configure(%s) = %v, %v", config, found, err)
	}
	return d.Capability
}

func allowing(t *testing.T, dirs ...string) driver.Capability {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"allow": append([]string{}, dirs...)})
	if err != nil {
		t.Fatal(err)
	}
	return configured(t, string(raw))
}

// seen is what a client with these roots makes the driver see.
func seen(t *testing.T, d driver.Capability, c driver.Client, files string, dirs ...string) filecheck.Result {
	t.Helper()
	res, err := d.Interpret(t.Context(), driver.InterpretRequest{Input: demanding(files), Client: c, Raw: listed(dirs...)})
	if err != nil {
		t.Fatal(err)
	}
	if res.Answer == nil {
		t.Fatalf("Interpret = %+v, want an answer", res)
	}
	return resultOf(t, res.Answer)
}

func resultOf(t *testing.T, a *driver.Answer) filecheck.Result {
	t.Helper()
	if a.Provenance != driver.ServerObserved {
		t.Errorf("provenance = %q, want server-observed", a.Provenance)
	}
	r, ok := filecheck.ReadResult(a.Value)
	if !ok {
		t.Fatalf("the answer %s does not say whether it passed", a.Value)
	}
	return r
}

// folder makes a folder with files: name to content; a name that ends in a
// slash is a folder.
func folderWith(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// failedAt is the check that the first failing finding names, with its reason.
func failedAt(r filecheck.Result) (string, string) {
	for _, f := range r.Files {
		if !f.Passed {
			return f.Check, f.Reason
		}
	}
	return "", ""
}

func paths(r filecheck.Result) string {
	var out []string
	for _, f := range r.Files {
		out = append(out, fmt.Sprintf("%s %v", f.Path, f.Passed))
	}
	return strings.Join(out, ", ")
}

func demandOf(t *testing.T, files string) []filecheck.Check {
	t.Helper()
	checks, found := filecheck.Parse(json.RawMessage(files))
	if len(found) > 0 {
		t.Fatal(found)
	}
	return checks
}
