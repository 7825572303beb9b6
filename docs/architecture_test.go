package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	folderLine = regexp.MustCompile(`(?m)^([\w./-]+/)(<\w+>/)? +(\S.*)$`)
	subfolder  = regexp.MustCompile(`(?:^|[\s;,])(\w+)/(?:$|[\s;,])`)
)

// TestArchitectureListsEveryFolder compares the list of folders in ARCHITECTURE.md
// with the tree, in both directions.
func TestArchitectureListsEveryFolder(t *testing.T) {
	page, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{} // and whether the line covers everything below it
	for _, line := range folderLine.FindAllStringSubmatch(string(page), -1) {
		folder := strings.TrimSuffix(line[1], "/")
		inside := strings.Contains(folder, "/")
		listed[folder] = line[2] != "" || !inside && folder != "cmd" && folder != "core"
		for _, sub := range subfolder.FindAllStringSubmatch(line[3], -1) {
			listed[path.Join(folder, sub[1])] = false
		}
	}
	if len(listed) < 40 {
		t.Fatalf("found only %d folders in ARCHITECTURE.md; the test looks in the wrong place", len(listed))
	}
	for folder := range listed {
		if info, err := os.Stat(filepath.Join("..", folder)); err != nil || !info.IsDir() {
			t.Errorf("ARCHITECTURE.md lists %s/, which is not a folder", folder)
		}
	}
	for _, folder := range packages(t) {
		if !covered(listed, folder) {
			t.Errorf("ARCHITECTURE.md does not list %s/: add a line, or name it in the line of the folder above", folder)
		}
	}
}

// covered: the folder itself is listed, or a line covers it together with others.
func covered(listed map[string]bool, folder string) bool {
	if _, ok := listed[folder]; ok {
		return true
	}
	for above := path.Dir(folder); above != "."; above = path.Dir(above) {
		if listed[above] || strings.HasSuffix(above, "test") {
			return true
		}
	}
	return strings.HasSuffix(folder, "test")
}

// packages returns the folders of the root module and of sdk that hold Go files.
func packages(t *testing.T) []string {
	t.Helper()
	var folders []string
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || file == ".." {
			return err
		}
		folder := filepath.ToSlash(strings.TrimPrefix(file, "../"))
		if name := d.Name(); strings.HasPrefix(name, ".") || name == "node_modules" || name == "bin" || name == "testdata" {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && folder != "sdk" {
			return filepath.SkipDir // a module of its own
		}
		if files, _ := filepath.Glob(filepath.Join(file, "*.go")); len(files) > 0 {
			folders = append(folders, folder)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) < 100 {
		t.Fatalf("found only %d packages; the test looks in the wrong place", len(folders))
	}
	return folders
}
