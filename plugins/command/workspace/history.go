package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Bounds of what is copied of a history.
const (
	maxTags     = 20_000
	maxShallow  = 1 << 20   // bytes
	maxHistory  = 128 << 20 // bytes of objects; of a larger repository only the newest commit is copied
	historyTime = 2 * time.Minute
)

// history is what a command may ask git about: the commit that is checked out, its
// branch and the tags, by their ids. An id is the hash of all that it names, so that
// objects which hash to other ids are not of this history.
type history struct {
	head    string   // the id of the commit; empty before the first one
	branch  string   // such as refs/heads/main; empty without one
	tags    []string // id and name
	shallow string   // the commits whose parents are missing
	format  string   // of ids: sha1 or sha256
	newest  bool     // the copy has one commit and its tags
}

// history reads the part of the repository that a snapshot has. None of it is a
// setting, a hook or a filter.
func (r repository) history(ctx context.Context) (h history, err error) {
	if h.head, err = r.text(ctx, "rev-parse", "--quiet", "--verify", "HEAD^{commit}"); err != nil {
		return history{}, err
	}
	if h.branch, err = r.text(ctx, "symbolic-ref", "--quiet", "HEAD"); err != nil {
		return history{}, err
	}
	h.newest = r.partial || r.size > maxHistory
	if h.tags, err = r.tags(ctx, h); err != nil {
		return history{}, err
	}
	about, err := r.text(ctx, "rev-parse", "--path-format=absolute", "--show-object-format", "--git-path", "shallow")
	if err != nil {
		return history{}, err
	}
	var shallow string
	if h.format, shallow, _ = strings.Cut(about, "\n"); strings.ContainsAny(h.branch, " \n\x00") || h.format != "sha1" && h.format != "sha256" {
		return history{}, fmt.Errorf("the branch %.200q or the format %.20q cannot be copied", h.branch, h.format)
	}
	if h.newest && h.head != "" {
		h.shallow = h.head + "\n"
		return h, nil
	}
	if h.shallow, err = small(shallow, maxShallow); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return h, err
}

// tags lists the tags that a copy has.
func (r repository) tags(ctx context.Context, h history) ([]string, error) {
	args := []string{"for-each-ref", "--format=%(objectname) %(refname)", fmt.Sprintf("--count=%d", maxTags), "refs/tags/"}
	if h.newest {
		if h.head == "" {
			return nil, nil
		}
		args = append(args, "--points-at="+h.head)
	}
	tags, err := r.text(ctx, args...)
	if err != nil || tags == "" {
		return nil, err
	}
	return strings.Split(tags, "\n"), nil
}

// lines is what the digest of a snapshot has of the history.
func (h history) lines() string {
	if h.format == "" {
		return "" // the workspace has no repository
	}
	return strings.Join(append([]string{"", h.format, h.head, h.branch, h.shallow, fmt.Sprint(h.newest)}, h.tags...), "\n")
}

// extent says how much of it a copy has.
func (h history) extent() string {
	if h.newest {
		return "the commit that is checked out, without earlier ones"
	}
	return "the commits of the branch and the tags"
}

// put makes a repository in the folder that has the history, objects of its own and
// no settings of others. Its index is that of the commit.
func (h history) put(ctx context.Context, from repository, into string, limit int64) error {
	repo := repository{git: filepath.Join(into, dotGit), tree: into}
	if err := h.putRefs(repo); err != nil {
		return err
	}
	if err := h.putObjects(ctx, from, repo, limit); err != nil {
		return fmt.Errorf("copy the history: %w", err)
	}
	if h.head == "" {
		return nil
	}
	if _, err := repo.text(ctx, "read-tree", h.head); err != nil {
		return err
	}
	_, err := repo.text(ctx, "update-index", "-q", "--refresh")
	return err
}

// putRefs makes a repository without objects.
func (h history) putRefs(repo repository) error {
	version, head := "0", h.head
	if h.format != "sha1" {
		version = "1\n[extensions]\n\tobjectFormat = " + h.format
	}
	if h.branch != "" {
		head = "ref: " + h.branch
	}
	refs := h.tags
	if h.branch != "" && h.head != "" {
		refs = append([]string{h.head + " " + h.branch}, refs...)
	}
	for _, folder := range []string{"objects", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(repo.git, folder), modeFolder); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{
		"HEAD": head + "\n",
		// The time and owner of a file change when it is handed to another user.
		"config":      "[core]\n\tfilemode = true\n\tbare = false\n\ttrustctime = false\n\tcheckStat = minimal\n\trepositoryformatversion = " + version + "\n",
		"packed-refs": strings.Join(append(slices.Clone(refs), ""), "\n"),
		"shallow":     h.shallow,
	} {
		if content == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(repo.git, name), []byte(content), modeFile); err != nil {
			return err
		}
	}
	return nil
}

// putObjects copies what the history names. In the copy each object has the id to
// which its content hashes, not the one that the repository gives it.
func (h history) putObjects(ctx context.Context, from, to repository, limit int64) error {
	var tips strings.Builder
	if h.head != "" {
		tips.WriteString(h.head + "\n")
	}
	for _, tag := range h.tags {
		id, _, _ := strings.Cut(tag, " ")
		tips.WriteString(id + "\n")
	}
	if tips.Len() == 0 {
		return nil
	}
	ask, pack := tips.String(), []string{"pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset", "--window=0"}
	if h.newest {
		ask = "--shallow " + h.head + "\n" + ask
	}
	if from.partial {
		pack = append(pack, "--missing=allow-any")
	}
	from.time, to.time = historyTime, historyTime
	err := from.run(ctx, strings.NewReader(ask), func(packed *bufio.Reader) error {
		return to.run(ctx, &bounded{packed, limit}, drain, "index-pack", "--stdin")
	}, pack...)
	if err != nil || from.partial {
		return err
	}
	if err := to.run(ctx, strings.NewReader(tips.String()), drain, "rev-list", "--objects", "--quiet", "--stdin"); err != nil {
		return fmt.Errorf("objects are missing, or are not what their ids say; run git fsck: %w", err)
	}
	return nil
}

func drain(from *bufio.Reader) error {
	_, err := io.Copy(io.Discard, from)
	return err
}

// bounded reads so many bytes and fails if there are more.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errors.New("it has more bytes than a workspace may have")
	}
	return n, err
}
