package workspace

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// repository is a git repository that is not trusted: its configuration, index
// and files may be crafted. The zero repository is none.
type repository struct {
	git   string // the folder or file .git
	tree  string // the work tree
	index string // a file that takes the place of the index; empty: its own
	roots []string
	time  time.Duration // of a call; 0: gitTime

	files   int   // that were looked at
	size    int64 // of its objects
	partial bool  // objects may be missing, which git would fetch
}

func (r repository) exists() bool { return r.git != "" }

// Bounds of one call of git.
const (
	gitTime   = 20 * time.Second
	maxField  = 64 << 10 // bytes of a name
	maxStderr = 4 << 10  // bytes
	maxReason = 300      // bytes of what git complains about
)

// harmless are settings that win over those of the repository. None of the
// commands used here filters content or compares with programs; these close what
// is left: the monitor of the index, hooks, and files elsewhere. The environment
// forbids to fetch objects that are missing, which would start programs, too, and
// has no grafts, which give commits other parents.
var harmless = []string{
	"-c", "core.fsmonitor=false",
	"-c", "core.untrackedCache=false",
	"-c", "core.hooksPath=/dev/null",
	"-c", "core.excludesFile=/dev/null",
	"-c", "core.attributesFile=/dev/null",
	// Files that only repeat what objects say can say something else.
	"-c", "core.commitGraph=false",
	"-c", "core.multiPackIndex=false",
	"-c", "pack.useBitmaps=false",
	"--no-pager", "--no-replace-objects", "--no-optional-locks", "--literal-pathspecs",
}

// environment is all that git gets, besides the repository.
func environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/dev/null", "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_GRAFT_FILE=/dev/null/none", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0",
	}
}

// known visits the paths of the work tree that git knows or does not ignore, and
// with which it would not be led elsewhere. A path may be visited twice, be a
// folder, or be missing.
func (r repository) known(ctx context.Context, visit func(name string) error) error {
	return r.fields(ctx, func(name string) error {
		if name = strings.TrimSuffix(name, "/"); !proper(name) {
			return nil // a crafted index can name anything
		}
		return visit(name)
	}, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
}

// fields runs git and visits each of the fields that it writes, which a NUL ends.
func (r repository) fields(ctx context.Context, visit func(string) error, args ...string) error {
	return r.run(ctx, nil, func(out *bufio.Reader) error {
		names := bufio.NewScanner(out)
		names.Buffer(nil, maxField)
		names.Split(untilNUL)
		for names.Scan() {
			if err := visit(names.Text()); err != nil {
				return err
			}
		}
		return names.Err()
	}, args...)
}

// maxText bounds what text reads.
const maxText = 8 << 20 // bytes

// text runs git and returns what it writes, without the last line end. It is
// empty if git only exits with 1.
func (r repository) text(ctx context.Context, args ...string) (string, error) {
	var out []byte
	err := r.run(ctx, nil, func(from *bufio.Reader) (err error) {
		if out, err = io.ReadAll(io.LimitReader(from, maxText+1)); err == nil && len(out) > maxText {
			err = fmt.Errorf("git %s writes more than %d bytes", args[0], maxText)
		}
		return err
	}, args...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return "", nil
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

func untilNUL(data []byte, _ bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	return 0, nil, nil
}

// run runs git and has its output read. An error of reading ends git.
func (r repository) run(outer context.Context, input io.Reader, read func(*bufio.Reader) error, args ...string) error {
	program, err := r.program()
	if err != nil {
		return err
	}
	limit := cmp.Or(r.time, gitTime)
	ctx, cancel := context.WithTimeout(outer, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(append([]string{}, harmless...), args...)...)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = r.tree, input, time.Second
	cmd.Env = append(environment(), "GIT_DIR="+r.git, "GIT_WORK_TREE="+r.tree)
	if r.index != "" {
		cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+r.index)
	}
	complaint := &head{left: maxStderr}
	cmd.Stderr = complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	unread := read(bufio.NewReader(out))
	if unread != nil {
		cancel() // its output is of no use any more
	}
	ended := cmd.Wait()
	switch {
	case outer.Err() != nil:
		return fmt.Errorf("git %s: %w", args[0], outer.Err())
	case ended != nil && complaint.Len() > 0:
		return fmt.Errorf("git %s: %s (%w)", args[0], plain.LineWithin(complaint.String(), maxReason), ended)
	case unread != nil:
		return unread
	case ended != nil && ctx.Err() != nil:
		return fmt.Errorf("git %s took longer than %s", args[0], limit)
	case ended != nil:
		return fmt.Errorf("git %s: %w", args[0], ended)
	}
	return nil
}

// program is the git of the system, and none that the workspace has.
func (r repository) program() (string, error) {
	found, err := exec.LookPath("git")
	if err != nil {
		return "", fmt.Errorf("it is a git work tree and there is no program git on PATH (%w); install git", err)
	}
	if found, err = filepath.EvalSymlinks(found); err != nil {
		return "", err
	}
	if strings.HasPrefix(found, r.tree+string(filepath.Separator)) {
		return "", fmt.Errorf("the program %s lies in the workspace, where others can change it; put another git first on PATH", found)
	}
	return found, nil
}

// head keeps the first bytes that are written to it.
type head struct {
	strings.Builder
	left int
}

func (h *head) Write(b []byte) (int, error) {
	n := min(len(b), h.left)
	h.left -= n
	h.Builder.Write(b[:n])
	return len(b), nil
}
