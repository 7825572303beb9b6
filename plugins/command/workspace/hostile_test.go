package workspace_test

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the index of git ends in one
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/plugins/command/workspace"
)

// programs are settings that make some command of git start a program, and the
// files that belong to them. PROGRAM is a script that leaves a marker.
const programs = `
[core]
	fsmonitor = PROGRAM
	fsmonitorHookVersion = 2
	hooksPath = HOOKS
	sshCommand = PROGRAM
	gitProxy = PROGRAM
	pager = PROGRAM
	editor = PROGRAM
	askPass = PROGRAM
	alternateRefsCommand = PROGRAM
	attributesFile = ATTRIBUTES
	untrackedCache = true
[filter "x"]
	clean = PROGRAM
	smudge = PROGRAM
	process = PROGRAM
	required = true
[diff]
	external = PROGRAM
[diff "x"]
	textconv = PROGRAM
	command = PROGRAM
[merge "x"]
	driver = PROGRAM
[credential]
	helper = !PROGRAM
[alias]
	ls-files = !PROGRAM
	rev-parse = !PROGRAM
[pager]
	ls-files = PROGRAM
	for-each-ref = PROGRAM
[interactive]
	diffFilter = PROGRAM
[gpg]
	program = PROGRAM
[log]
	showSignature = true
[sequence]
	editor = PROGRAM
[uploadpack]
	packObjectsHook = PROGRAM
[submodule "lib"]
	update = !PROGRAM
[protocol "ext"]
	allow = always
[extensions]
	partialClone = origin
[remote "origin"]
	url = ext::PROGRAM
	promisor = true
	partialCloneFilter = blob:none
	uploadpack = PROGRAM
[trace2]
	eventTarget = TRACE
`

// hostile makes a work tree in which every setting, hook and attribute starts a
// program. It returns the path at which such a program leaves a marker.
func hostile(t *testing.T) (dir, marker string) {
	t.Helper()
	dir = committed(t, map[string]string{"a": "x", "tests/b": "y", "tests/c": "z", ".gitattributes": "* filter=x diff=x merge=x text=auto\n", ".gitignore": "*.log\n"})
	git(t, dir, "update-ref", "refs/remotes/origin/main", "HEAD")
	lost := git(t, dir, "rev-parse", "HEAD:tests/c")
	out := folder(t, map[string]string{"attributes": "* filter=x\n"})
	marker = filepath.Join(out, "marker")
	script := "#!/bin/sh\necho \"$0 $*\" >> " + marker + "\n"
	write(t, out, map[string]string{"program": script})
	for _, hook := range []string{"post-index-change", "reference-transaction", "pre-commit", "post-checkout", "post-merge", "fsmonitor-watchman", "pre-auto-gc", "post-rewrite", "update"} {
		write(t, out, map[string]string{"hooks/" + hook: script})
		write(t, dir, map[string]string{".git/hooks/" + hook: script})
	}
	settings := strings.NewReplacer("PROGRAM", filepath.Join(out, "program"), "HOOKS", filepath.Join(out, "hooks"), "ATTRIBUTES", filepath.Join(out, "attributes"), "TRACE", marker).Replace(programs)
	write(t, out, map[string]string{"included": settings})
	config, err := os.ReadFile(filepath.Join(dir, ".git/config"))
	must(t, err)
	write(t, dir, map[string]string{
		".git/config":          string(config) + settings + "[include]\n\tpath = " + filepath.Join(out, "included") + "\n",
		".git/info/attributes": "* filter=x\n",
	})
	must(t, os.Remove(filepath.Join(dir, ".git/objects", lost[:2], lost[2:])))
	write(t, dir, map[string]string{".git/objects/pack/pack-0.promisor": ""}) // so that objects may be missing
	for name, value := range map[string]string{
		"GIT_EXTERNAL_DIFF": filepath.Join(out, "program"), "GIT_PAGER": filepath.Join(out, "program"), "GIT_SSH_COMMAND": filepath.Join(out, "program"),
		"GIT_TRACE": marker, "GIT_TRACE2_EVENT": marker, "GIT_DIR": "/nonexistent", "GIT_INDEX_FILE": "/nonexistent",
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": filepath.Join(out, "program"),
	} {
		t.Setenv(name, value)
	}
	return dir, marker
}

func TestNoProgramThatARepositoryNamesIsStarted(t *testing.T) {
	dir, marker := hostile(t)
	write(t, dir, map[string]string{"a": "changed", "new": "n"})
	for _, name := range []string{"GIT_DIR", "GIT_INDEX_FILE", "GIT_TRACE", "GIT_TRACE2_EVENT", "GIT_CONFIG_COUNT"} {
		value := os.Getenv(name)
		must(t, os.Unsetenv(name))
		defer func() { must(t, os.Setenv(name, value)) }()
	}
	git(t, dir, "ls-files", "--others") // as a person would
	if started, err := os.ReadFile(marker); err != nil || !strings.Contains(string(started), "program") {
		t.Fatalf("the repository starts no program at all (%v): %s", err, started)
	}
	must(t, os.Remove(marker))
	t.Setenv("GIT_TRACE", marker)
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_DIR", "/nonexistent")
	t.Setenv("GIT_INDEX_FILE", "/nonexistent")

	s := take(t, dir, workspace.Options{})
	from := put(t, s)
	if err := s.Protect(t.Context(), "origin/main", []string{"tests/b"}); err != nil {
		t.Error(err)
	}
	if err := s.Protect(t.Context(), "origin/main", []string{"tests/**"}); err == nil {
		t.Error("a file whose object is missing counts as unchanged")
	}
	write(t, from, map[string]string{"a": "again", "more": "m"})
	written, err := s.WriteBack(t.Context(), from)
	if err != nil || !cmp.Equal(written, []string{"a", "more"}) {
		t.Errorf("WriteBack = %v, %v", written, err)
	}
	if started, err := os.ReadFile(marker); !os.IsNotExist(err) {
		t.Errorf("a program was started (%v): %s", err, started)
	}
}

func TestARepositoryCannotNameAnotherWorkTree(t *testing.T) {
	elsewhere := folder(t, map[string]string{"secret": "s"})
	dir := committed(t, map[string]string{"a": "x"})
	git(t, dir, "config", "core.worktree", elsewhere)
	if diff := cmp.Diff(map[string]string{"a": "x"}, holds(t, put(t, take(t, dir, workspace.Options{})))); diff != "" {
		t.Error(diff)
	}
}

func TestACraftedIndexLeadsNowhere(t *testing.T) {
	parent := folder(t, map[string]string{"secret": "s"})
	dir := filepath.Join(parent, "work")
	write(t, dir, map[string]string{"a": "x", "zz/secret": "1", ".zit/config": "2", "z": "3"})
	git(t, dir, "init", "-q")
	git(t, dir, "add", "-A")
	index := filepath.Join(dir, ".git/index")
	raw, err := os.ReadFile(index)
	must(t, err)
	// The names have the same length, so that the index stays whole.
	raw = bytes.ReplaceAll(raw, []byte("zz/secret"), []byte("../secret"))
	raw = bytes.ReplaceAll(raw, []byte(".zit/config"), []byte(".git/config"))
	raw = raw[:len(raw)-sha1.Size]
	sum := sha1.Sum(raw) //nolint:gosec // see above
	must(t, os.WriteFile(index, append(raw, sum[:]...), 0o600))
	if listed := git(t, dir, "ls-files"); !strings.Contains(listed, ".git/config") || !strings.Contains(listed, "/secret") {
		t.Fatalf("the index is not crafted: %s", listed)
	}
	got := holds(t, put(t, take(t, dir, workspace.Options{})))
	if diff := cmp.Diff(map[string]string{"a": "x", "zz/secret": "1", ".zit/config": "2", "z": "3"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestGitThatWaitsForeverIsGivenUp(t *testing.T) {
	dir := committed(t, map[string]string{"a": "x"})
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	git(t, dir, "config", "include.path", fifo)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := workspace.Take(ctx, dir, workspace.Options{}); err == nil || !errors.Is(err, ctx.Err()) {
		t.Errorf("Take = %v, want that its time was over", err)
	}
}

func TestABrokenRepositoryIsAnError(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"file":   {".git": "gitdir: /no/such"},
		"folder": {".git/x": ""},
		"link":   {".git": "-> nowhere"},
	} {
		_, err := workspace.Take(t.Context(), folder(t, files), workspace.Options{})
		if err == nil || !strings.Contains(err.Error(), "not a git repository") {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := committed(t, map[string]string{"a": "x"})
	t.Setenv("PATH", dir)
	if _, err := workspace.Take(t.Context(), dir, workspace.Options{}); err == nil || !strings.Contains(err.Error(), "install git") {
		t.Errorf("without git: %v", err)
	}
	write(t, dir, map[string]string{"git": "#!/bin/sh"})
	if _, err := workspace.Take(t.Context(), dir, workspace.Options{}); err == nil || !strings.Contains(err.Error(), "lies in the workspace") {
		t.Errorf("with the workspace's own git: %v", err)
	}
}

// swapping lets a folder and a link to another change places until the test ends.
func swapping(t *testing.T, real, link string) {
	t.Helper()
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = os.Rename(real, real+".other")
			_ = os.Rename(link, real)
			_ = os.Rename(real, link)
			_ = os.Rename(real+".other", real)
		}
	}()
	t.Cleanup(func() { close(done); <-stopped })
}

func TestAFolderSwappedForALinkIsNeverLeft(t *testing.T) {
	outside := folder(t, map[string]string{"inside/file": "outside"})
	dir := folder(t, map[string]string{"inside/file": "inside!", "links/to": "-> " + filepath.Join(outside, "inside")})
	swapping(t, filepath.Join(dir, "inside"), filepath.Join(dir, "links", "to"))
	puts := 0
	for until := time.Now().Add(time.Second); time.Now().Before(until) || puts == 0; {
		s, err := workspace.Take(t.Context(), dir, workspace.Options{})
		if err != nil {
			continue
		}
		into := t.TempDir()
		if s.Put(t.Context(), into) != nil {
			continue
		}
		puts++
		for name, content := range holds(t, into) {
			if content == "outside" {
				t.Fatalf("%s outside of the workspace was read", name)
			}
		}
		if again := take(t, into, workspace.Options{}); again.Digest != s.Digest {
			t.Fatal("a copy has another digest than its snapshot")
		}
	}
}

func TestWritingBackIntoAFolderSwappedForALinkStaysInside(t *testing.T) {
	outside := folder(t, map[string]string{"inside/file": "outside"})
	dir := folder(t, map[string]string{"inside/file": "inside!", "links/to": "-> " + filepath.Join(outside, "inside")})
	snapshot := take(t, dir, workspace.Options{})
	from := put(t, snapshot)
	write(t, from, map[string]string{"inside/file": "written", "inside/new/file": "written"})
	swapping(t, filepath.Join(dir, "inside"), filepath.Join(dir, "links", "to"))
	for until := time.Now().Add(time.Second); time.Now().Before(until); {
		if _, err := snapshot.WriteBack(t.Context(), from); err == nil {
			break // then it is in the workspace, and it differs from the snapshot from now on
		}
	}
	if diff := cmp.Diff(map[string]string{"inside/file": "outside"}, holds(t, outside)); diff != "" {
		t.Errorf("what lies outside was changed: %s", diff)
	}
}
