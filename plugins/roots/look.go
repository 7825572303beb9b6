package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/sdk/filecheck"
)

const (
	maxFindings = 200
	maxMessage  = 1500 // bytes
)

// look is one look at files. It is for one goroutine.
type look struct {
	ctx       context.Context //nolint:containedctx // a look is one call
	since     time.Time       // when the run began
	roots     []opened
	namesLeft int   // how many names may still be read
	bytesLeft int64 // how many bytes may still be read
	limit     config
}

// opened is a folder that cannot be left, not even through a link.
type opened struct {
	*os.Root
	name string
	real string // the name without links
}

// newLook opens the folders. Those that are not there are left out: a client on
// another machine lists folders of its own.
func newLook(ctx context.Context, cfg config, since time.Time, folders []folder) (*look, string) {
	l := &look{ctx: ctx, since: since, namesLeft: cfg.MaxNames, bytesLeft: int64(cfg.MaxBytes), limit: cfg}
	for _, f := range folders {
		root, err := f.open()
		if err != nil {
			continue
		}
		l.roots = append(l.roots, opened{root, f.path(), f.real()})
	}
	if len(l.roots) == 0 {
		return nil, "no root is a folder of this machine that the server may open"
	}
	return l, ""
}

func (f folder) open() (*os.Root, error) {
	base, err := os.OpenRoot(f.base)
	if err != nil || f.below == "." {
		return base, err
	}
	below, err := base.OpenRoot(f.below)
	return below, errors.Join(err, base.Close())
}

// real is the path of an opened folder without links: one folder may be named
// several times.
func (f folder) real() string {
	if real, err := filepath.EvalSymlinks(f.path()); err == nil {
		return real
	}
	return f.path()
}

func (l *look) close() error {
	var errs []error
	for _, r := range l.roots {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// result makes all checks. A client of this machine is told why one failed,
// any other one only which.
func (l *look) result(checks []filecheck.Check, tellWhy bool) filecheck.Result {
	r := filecheck.Result{Passed: true}
	var told []string
	for _, c := range checks {
		for _, f := range l.findings(c) {
			if !f.Passed {
				r.Passed = false
				told = append(told, describeFailure(c, f, tellWhy))
			}
			if len(r.Files) == maxFindings {
				r.More++
				continue
			}
			r.Files = append(r.Files, f)
		}
	}
	if !r.Passed {
		r.Message = message(told)
	}
	return r
}

func describeFailure(c filecheck.Check, f filecheck.Finding, why bool) string {
	if !why {
		return c.Name()
	}
	return fmt.Sprintf("%s: %s (%s)", f.Path, f.Reason, f.Check)
}

func message(failed []string) string {
	text := "The server looked at the files, and they are not as this step demands: "
	seen := make(map[string]bool)
	for _, one := range failed {
		if seen[one] {
			continue
		}
		if len(text)+len(one) > maxMessage {
			return text + "; and more"
		}
		if len(seen) > 0 {
			text += "; "
		}
		text += one
		seen[one] = true
	}
	return text
}

// refusal is why a name is not looked at any further: what is there, if
// anything, is nothing that a check may pass.
type refusal struct{ why string }

func (r refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return refusal{fmt.Sprintf(format, args...)} }

// errNothing: there is nothing of that name.
var errNothing = errors.New("there is no such file")

func (l *look) findings(c filecheck.Check) []filecheck.Finding {
	if c.Path == "" {
		return l.matching(c)
	}
	for _, root := range l.roots {
		f, err := l.file(root, c.Path, c)
		if errors.Is(err, errNothing) {
			continue
		}
		return []filecheck.Finding{f}
	}
	f := filecheck.Finding{Path: c.Path, Check: c.Made(), Passed: c.Absent}
	if !c.Absent {
		f.Check, f.Reason = filecheck.Exists, errNothing.Error()
	}
	return []filecheck.Finding{f}
}

// file looks at one file, or reports errNothing.
func (l *look) file(root opened, name string, c filecheck.Check) (filecheck.Finding, error) {
	f := filecheck.Finding{Path: name, Root: root.name, Check: filecheck.Exists}
	info, err := l.lookUp(root, name)
	switch {
	case errors.Is(err, errNothing):
		return f, err
	case err != nil:
		if c.Absent {
			f.Check = filecheck.Absent
		}
		f.Reason = err.Error()
		return f, nil
	case c.Absent:
		f.Check, f.Reason = filecheck.Absent, "it must not be there"
		return f, nil
	}
	return l.judge(root, f, info, c), nil
}

// judge makes the checks of a file that is there. One that changes meanwhile is
// looked at a second time.
func (l *look) judge(root opened, f filecheck.Finding, info fs.FileInfo, c filecheck.Check) filecheck.Finding {
	judged, err := l.judgeOnce(root, f, info, c)
	if errors.Is(err, errChanged) {
		if info, err = l.lookUp(root, f.Path); err == nil {
			judged, err = l.judgeOnce(root, f, info, c)
		}
	}
	if err != nil {
		f.Reason = err.Error()
		return f
	}
	return judged
}

func (l *look) judgeOnce(root opened, f filecheck.Finding, info fs.FileInfo, c filecheck.Check) (filecheck.Finding, error) {
	size := info.Size()
	f.Size, f.Modified = &size, info.ModTime().UTC().Format(time.RFC3339Nano)
	if failed, why := c.Size(size); failed != "" {
		f.Check, f.Reason = failed, why
		return f, nil
	}
	if c.NewerThanRun && !l.newer(info) {
		f.Check, f.Reason = filecheck.NewerThanRun, "it was not changed since the run began"
		return f, nil
	}
	if !c.ReadsContent() && size > l.bytesLeft {
		// Nobody asked for its content, so it passes without a digest.
		f.Check, f.Passed = c.Made(), true
		return f, nil
	}
	content, digest, err := l.read(root, f.Path, info, c)
	if err != nil {
		return f, err
	}
	f.SHA256 = digest
	if failed, why := c.Content(l.ctx, content, digest); failed != "" {
		f.Check, f.Reason = failed, why
		return f, nil
	}
	f.Check, f.Passed = c.Made(), true
	return f, nil
}

// newer compares whole seconds: there are file systems that keep no more.
func (l *look) newer(info fs.FileInfo) bool {
	return !l.since.IsZero() && !info.ModTime().Before(l.since.Truncate(time.Second))
}

// lookUp finds a regular file without following any link. It reports errNothing
// or why what is there is not looked at.
func (l *look) lookUp(root opened, name string) (fs.FileInfo, error) {
	parts := strings.Split(name, "/")
	for i := range parts {
		at := path.Join(parts[:i+1]...)
		info, err := l.lstat(root, at)
		if err != nil {
			return nil, err
		}
		switch last := i == len(parts)-1; {
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, refuse("%s is a symbolic link, and none is followed", at)
		case last && info.IsDir():
			return nil, refuse("it is a folder")
		case last && !info.Mode().IsRegular():
			return nil, refuse("it is not a regular file")
		case last:
			return info, nil
		case !info.IsDir():
			return nil, errNothing
		}
	}
	return nil, errNothing
}

func (l *look) lstat(root opened, name string) (fs.FileInfo, error) {
	if err := l.mayRead(); err != nil {
		return nil, err
	}
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return nil, errNothing
	case err != nil:
		return nil, refuse("it cannot be looked at")
	}
	return info, nil
}

// mayRead counts one name and keeps the time.
func (l *look) mayRead() error {
	if l.ctx.Err() != nil {
		return refuse("looking took longer than %s", l.limit.Timeout)
	}
	if l.namesLeft--; l.namesLeft < 0 {
		return refuse("more than %d names of files and folders would have to be looked at", l.limit.MaxNames)
	}
	return nil
}
