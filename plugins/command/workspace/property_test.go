package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/plugins/command/workspace"
)

// anyFiles are files as write takes them. Few names, so that files become folders
// and links.
var anyFiles = rapid.Custom(func(t *rapid.T) map[string]string {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[ab](/[ab](/[abé\n ])?)?`), 0, 8, rapid.ID[string]).Draw(t, "names")
	files := make(map[string]string)
	for _, name := range names {
		content := rapid.OneOf(rapid.StringMatching(`(#!)?[xy]?`), rapid.SampledFrom([]string{"-> a", "-> b/a", "-> nowhere"})).Draw(t, name)
		if free(files, name) {
			files[name] = content
		}
	}
	return files
})

// free reports whether a file can have the name beside the others.
func free(files map[string]string, name string) bool {
	for other := range files {
		for _, pair := range [][2]string{{name, other}, {other, name}} {
			if rel, err := filepath.Rel(pair[0], pair[1]); err == nil && filepath.IsLocal(rel) {
				return false
			}
		}
	}
	return true
}

func TestACopyHasTheDigestOfItsSnapshot(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := take(t, folder(t, anyFiles.Draw(rt, "files")), workspace.Options{})
		if again := take(t, put(t, s), workspace.Options{}); again.Digest != s.Digest {
			rt.Errorf("the copy has the digest %s, want %s", again.Digest, s.Digest)
		}
	})
	for seed := range 10 {
		dir := committed(t, anyFiles.Example(seed))
		write(t, dir, map[string]string{"untracked/file": "x"})
		s := take(t, dir, workspace.Options{})
		if again := take(t, put(t, s), workspace.Options{}); again.Digest != s.Digest {
			t.Errorf("seed %d: the copy has the digest %s, want %s", seed, again.Digest, s.Digest)
		}
	}
}

func TestOnlyTheSameFilesHaveTheSameDigest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		one, other := folder(t, anyFiles.Draw(rt, "one")), folder(t, anyFiles.Draw(rt, "other"))
		same := cmp.Equal(holds(t, one), holds(t, other))
		if digests := take(t, one, workspace.Options{}).Digest == take(t, other, workspace.Options{}).Digest; digests != same {
			rt.Errorf("the same files: %v, the same digest: %v", same, digests)
		}
	})
}

func TestTheWorkspaceBecomesWhatIsWrittenBack(t *testing.T) {
	becomes := func(t testing.TB, failed func(string, ...any), dir string, after map[string]string) {
		s := take(t, dir, workspace.Options{})
		from := put(t, s)
		for name := range holds(t, from) {
			must(t, os.RemoveAll(filepath.Join(from, name)))
		}
		for _, top := range []string{"a", "b"} {
			must(t, os.RemoveAll(filepath.Join(from, top)))
		}
		write(t, from, after)
		if _, err := s.WriteBack(t.Context(), from); err != nil {
			failed("WriteBack: %v", err)
			return
		}
		if diff := cmp.Diff(holds(t, from), holds(t, dir)); diff != "" {
			failed("after WriteBack: %s", diff)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		becomes(t, rt.Errorf, folder(t, anyFiles.Draw(rt, "before")), anyFiles.Draw(rt, "after"))
	})
	for seed := range 10 {
		becomes(t, t.Errorf, committed(t, anyFiles.Example(seed)), anyFiles.Example(100+seed))
	}
}

func TestALargeWorkspaceIsTaken(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: thousands of files and 1 GB")
	}
	dir := manyFiles(t, 5000)
	s := take(t, dir, workspace.Options{})
	if again := take(t, put(t, s), workspace.Options{}); s.Files != 5000 || again.Digest != s.Digest {
		t.Errorf("%d files, the digest of the copy is %s, want 5000 and %s", s.Files, again.Digest, s.Digest)
	}
	large := folder(t, map[string]string{"large": ""})
	must(t, os.Truncate(filepath.Join(large, "large"), 1<<30))
	if s := take(t, large, workspace.Options{}); s.Bytes != 1<<30 {
		t.Errorf("the snapshot has %d bytes, want 1 GiB", s.Bytes)
	}
}

func manyFiles(t testing.TB, n int) string {
	t.Helper()
	files := make(map[string]string, n)
	for i := range n {
		files[fmt.Sprintf("d%d/e%d/f%d", i%10, i%100, i)] = fmt.Sprint("content ", i)
	}
	return committed(t, files)
}

func BenchmarkTake(b *testing.B) {
	dir := manyFiles(b, 5000)
	for b.Loop() {
		take(b, dir, workspace.Options{})
	}
}

func BenchmarkPut(b *testing.B) {
	s := take(b, manyFiles(b, 5000), workspace.Options{})
	for b.Loop() {
		put(b, s)
	}
}
