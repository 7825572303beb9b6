package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kairos-mcp/kairos/plugins/command/workspace"
)

func TestTheCopyAnswersWhatCommandsAskGit(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		dir := folder(t, map[string]string{"a": "x", "run": "#!/bin/sh"})
		git(t, dir, "init", "-q", "-b", "topic", "--object-format="+format)
		git(t, dir, "add", "-A")
		git(t, dir, "commit", "-q", "-m", "first")
		git(t, dir, "tag", "-a", "v1.2", "-m", "release")
		write(t, dir, map[string]string{"b": "y"})
		git(t, dir, "add", "-A")
		git(t, dir, "commit", "-q", "-m", "second")
		write(t, dir, map[string]string{"new": "z"})
		into := put(t, take(t, dir, workspace.Options{}))
		for _, args := range [][]string{
			{"describe", "--tags", "--dirty"}, {"rev-parse", "HEAD"}, {"rev-parse", "--abbrev-ref", "HEAD"}, {"log", "--format=%s"},
			{"status", "--porcelain"}, {"diff", "--exit-code"}, {"diff-files"}, {"show", "HEAD:b"}, {"tag"}, {"fsck"},
		} {
			if got, want := git(t, into, args...), git(t, dir, args...); got != want {
				t.Errorf("%s: git %v is %q in the copy, want %q", format, args, got, want)
			}
		}
	}
}

func TestTheHistoryIsPartOfTheDigest(t *testing.T) {
	dir := committed(t, map[string]string{"a": "x"})
	seen := map[string]string{take(t, dir, workspace.Options{}).Digest: "nothing"}
	for _, args := range [][]string{
		{"commit", "-q", "--allow-empty", "-m", "second"}, {"tag", "v1"}, {"checkout", "-q", "-b", "other"}, {"checkout", "-q", "--detach"},
	} {
		git(t, dir, args...)
		digest := take(t, dir, workspace.Options{}).Digest
		if before, ok := seen[digest]; ok {
			t.Errorf("after git %v the digest is that after %s", args, before)
		}
		seen[digest] = args[0]
	}
}

func TestARepositoryWithoutACommitIsPut(t *testing.T) {
	dir := folder(t, map[string]string{"a": "x"})
	git(t, dir, "init", "-q", "-b", "main")
	into := put(t, take(t, dir, workspace.Options{}))
	if got := git(t, into, "status", "--porcelain"); got != "?? a" {
		t.Errorf("the status of the copy is %q, want that a is new", got)
	}
}

func TestTheCopyHasNoSettingsAndNoHooks(t *testing.T) {
	dir := committed(t, map[string]string{"a": "x"})
	git(t, dir, "config", "alias.x", "!true")
	write(t, dir, map[string]string{".git/hooks/post-checkout": "#!/bin/sh\n"})
	into := put(t, take(t, dir, workspace.Options{}))
	if got := git(t, into, "config", "--list", "--local"); got != "core.filemode=true\ncore.bare=false\ncore.trustctime=false\ncore.checkstat=minimal\ncore.repositoryformatversion=0" {
		t.Errorf("the settings of the copy are %q", got)
	}
	if _, err := os.Stat(filepath.Join(into, ".git/hooks")); !os.IsNotExist(err) {
		t.Errorf("hooks were copied: %v", err)
	}
}
