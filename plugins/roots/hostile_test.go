//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLinksAndSpecialFilesAreRefused(t *testing.T) {
	outside := folderWith(t, map[string]string{"secret": "abc", "sub/secret": "abc"})
	dir := folderWith(t, map[string]string{"real": "abc", "folder/file": "abc"})
	link := func(to, name string) { must(t, os.Symlink(to, filepath.Join(dir, name))) }
	link(filepath.Join(outside, "secret"), "to-file")
	link("real", "to-own-file")
	link(outside, "to-folder")
	link("folder", "to-own-folder")
	link("/no/such", "to-nothing")
	link("loop", "loop")
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	must(t, err)
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrUnix{Name: filepath.Join(dir, "s")}); err != nil {
		t.Logf("no socket to look at: %v", err) // the path may be too long for one
	}
	d := configured(t, `{"timeout":"2s"}`)
	for _, name := range []string{"to-file", "to-own-file", "to-folder/secret", "to-folder/sub/secret", "to-own-folder/file", "to-nothing", "loop", "loop/x", "fifo", "s"} {
		for _, demand := range []string{`{"path":%q}`, `{"path":%q,"sha256":"` + abc + `"}`, `{"path":%q,"absent":true}`} {
			files := "[" + fmt.Sprintf(demand, name) + "]"
			if r := seen(t, d, stdio, files, dir); r.Passed {
				t.Errorf("%s passes", files)
			}
		}
	}
	for files, want := range map[string]string{
		`[{"glob":"to-*"}]`:                  "to-file false, to-folder false, to-nothing false, to-own-file false, to-own-folder false",
		`[{"glob":"**/secret"}]`:             "**/secret false",
		`[{"glob":"to-folder/*"}]`:           "to-folder/* false",
		`[{"glob":"**/file"}]`:               "folder/file true",
		`[{"glob":"**/fifo","absent":true}]`: "**/fifo false",
	} {
		if got := paths(seen(t, d, stdio, files, dir)); got != want {
			t.Errorf("%s: %s, want %s", files, got, want)
		}
	}
}

func TestDevicesAreNeverRead(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("NOT TESTED: a device, because there is no /dev/zero")
	}
	d := configured(t, `{"timeout":"2s"}`)
	for _, files := range []string{`[{"path":"zero"}]`, `[{"path":"zero","contains":"x"}]`, `[{"glob":"zer?"}]`} {
		if r := seen(t, d, stdio, files, "/dev"); r.Passed {
			t.Errorf("%s in /dev passes", files)
		}
	}
}

func TestAFolderSwappedForALinkIsNeverLeft(t *testing.T) {
	outside := folderWith(t, map[string]string{"inside/file": "outside"})
	dir := folderWith(t, map[string]string{"inside/file": "inside!"})
	real, other, link := filepath.Join(dir, "inside"), filepath.Join(dir, "other"), filepath.Join(dir, "link")
	must(t, os.Symlink(filepath.Join(outside, "inside"), link))
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
			}
			// The folder and the link change places as fast as they can.
			_ = os.Rename(real, other)
			_ = os.Rename(link, real)
			_ = os.Rename(real, link)
			_ = os.Rename(other, real)
		}
	}()
	defer func() { close(done); <-stopped }()
	d := configured(t, `{}`)
	until := time.Now().Add(time.Second)
	for time.Now().Before(until) {
		for _, files := range []string{`[{"path":"inside/file","contains":"outside"}]`, `[{"glob":"**/file","contains":"outside"}]`} {
			if r := seen(t, d, stdio, files, dir); r.Passed {
				t.Fatalf("a file outside the root was read: %+v", r)
			}
		}
	}
}

func TestAFileThatChangesUnderTheLookDoesNotPass(t *testing.T) {
	dir := folderWith(t, map[string]string{"log": "x"})
	path := filepath.Join(dir, "log")
	root, why := newLook(t.Context(), config{MaxNames: 10, MaxBytes: 1 << 20, Timeout: time.Second}, began, []folder{{dir, "."}})
	if why != "" {
		t.Fatal(why)
	}
	defer func() { must(t, root.close()) }()
	checks := demandOf(t, `[{"path":"log","contains":"x"}]`)
	before, err := root.lookUp(root.roots[0], "log")
	must(t, err)
	must(t, os.WriteFile(path, []byte("xx"), 0o600))
	if _, _, err := root.read(root.roots[0], "log", before, checks[0]); !errors.Is(err, errChanged) {
		t.Errorf("a longer file = %v, want %v", err, errChanged)
	}
	before, err = root.lookUp(root.roots[0], "log")
	must(t, err)
	must(t, os.Remove(path))
	must(t, syscall.Mkfifo(path, 0o600))
	if _, _, err := root.read(root.roots[0], "log", before, checks[0]); err == nil {
		t.Error("a FIFO in the place of a file is read")
	}
}

func TestALookIsBounded(t *testing.T) {
	dir := folderWith(t, map[string]string{"big": strings.Repeat("x", 2000), "small": "x"})
	for i := range 300 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%03d", i)), nil, 0o600))
	}
	deep := dir
	for range maxDepth + 2 {
		deep = filepath.Join(deep, "d")
	}
	must(t, os.MkdirAll(deep, 0o755))
	for name, tc := range map[string]struct{ config, files, says string }{
		"names":               {`{"max_names":100}`, `[{"glob":"f*"}]`, "more than 100 names"},
		"names of the absent": {`{"max_names":100}`, `[{"glob":"*.tmp","absent":true}]`, "more than 100 names"},
		"depth":               {`{}`, `[{"glob":"**/x"}]`, "nested deeper than"},
		"bytes":               {`{"max_bytes":1000}`, `[{"path":"big","contains":"x"}]`, "at most 1000 bytes"},
		"bytes of a digest":   {`{"max_bytes":1000}`, `[{"path":"big","sha256":"` + abc + `"}]`, "at most 1000 bytes"},
		"bytes of all":        {`{"max_bytes":2001}`, `[{"path":"big","contains":"x"},{"path":"small","contains":"x"},{"path":"small","contains":"x"}]`, "at most 2001 bytes"},
	} {
		r := seen(t, configured(t, tc.config), stdio, tc.files, dir)
		if _, why := failedAt(r); r.Passed || !strings.Contains(why, tc.says) {
			t.Errorf("%s: passed %v because %q, want %q", name, r.Passed, why, tc.says)
		}
	}
	if r := seen(t, configured(t, `{"max_bytes":1000}`), stdio, `[{"path":"big","min_size":1}]`, dir); !r.Passed || r.Files[0].SHA256 != "" {
		t.Errorf("a file whose content nobody asked for: %+v, want passed without a digest", r)
	}
	if r := seen(t, configured(t, `{}`), stdio, `[{"glob":"f*"}]`, dir); !r.Passed || len(r.Files) != maxFindings || r.More != 300-maxFindings {
		t.Errorf("%d findings and %d more, want %d and the rest", len(r.Files), r.More, maxFindings)
	}
}

func TestALookThatTakesTooLongFails(t *testing.T) {
	dir := folderWith(t, map[string]string{"a": "abc"})
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	<-ctx.Done()
	l, why := newLook(ctx, config{MaxNames: 10, MaxBytes: 10}, began, []folder{{dir, "."}})
	if why != "" {
		t.Fatal(why)
	}
	defer func() { must(t, l.close()) }()
	for _, files := range []string{`[{"path":"a"}]`, `[{"path":"b","absent":true}]`, `[{"glob":"*"}]`, `[{"glob":"*.tmp","absent":true}]`} {
		if r := l.result(demandOf(t, files), true); r.Passed || !strings.Contains(r.Message, "took longer") {
			t.Errorf("%s: %+v, want that it took too long", files, r)
		}
	}
}

func TestWhatMayNotBeReadDoesNotPass(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("NOT TESTED: files that may not be read, because root reads everything")
	}
	dir := folderWith(t, map[string]string{"closed/a": "abc", "shut": "abc"})
	must(t, os.Chmod(filepath.Join(dir, "closed"), 0))
	must(t, os.Chmod(filepath.Join(dir, "shut"), 0))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "closed"), 0o700) })
	d := configured(t, `{}`)
	for _, files := range []string{`[{"path":"closed/a"}]`, `[{"path":"closed/a","absent":true}]`, `[{"path":"shut"}]`, `[{"glob":"**/*.tmp","absent":true}]`} {
		if r := seen(t, d, stdio, files, dir); r.Passed {
			t.Errorf("%s passes", files)
		}
	}
}
