package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of what is copied of a history.
const (
	maxTags    = 20_000
	maxShallow = 1 << 20 // bytes
)

// history is what a command may ask git about: the commit that is checked out, its
// branch and the tags. Commits themselves are read where they are.
type history struct {
	head    string   // the id of the commit; empty before the first one
	branch  string   // such as refs/heads/main; empty without one
	tags    []string // id and name
	shallow string   // the commits whose parents are missing
	format  string   // of ids: sha1 or sha256
	store   string   // the folder of the objects
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
	tags, err := r.text(ctx, "for-each-ref", "--format=%(objectname) %(refname)", fmt.Sprintf("--count=%d", maxTags), "refs/tags/")
	if err != nil {
		return history{}, err
	}
	if tags != "" {
		h.tags = strings.Split(tags, "\n")
	}
	paths, err := r.text(ctx, "rev-parse", "--path-format=absolute", "--show-object-format", "--git-path", "objects", "--git-path", "shallow")
	if err != nil {
		return history{}, err
	}
	lines := strings.Split(paths, "\n")
	if len(lines) != 3 {
		return history{}, fmt.Errorf("git names %.200q as its folders, which must be lines without line ends in them", paths)
	}
	h.format, h.store = lines[0], lines[1]
	if strings.ContainsAny(h.branch, " \n\x00") || h.format != "sha1" && h.format != "sha256" {
		return history{}, fmt.Errorf("the branch %.200q or the format %.20q cannot be copied", h.branch, h.format)
	}
	h.shallow, err = small(lines[2])
	return h, err
}

// small reads a file of the repository, which may be missing.
func small(name string) (string, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxShallow {
		return "", fmt.Errorf("%s is not a file of at most %d bytes", name, maxShallow)
	}
	content, err := os.ReadFile(name)
	return string(content), err
}

// lines is what the digest of a snapshot has of the history.
func (h history) lines() string {
	if h.format == "" {
		return "" // the workspace has no repository
	}
	return strings.Join(append([]string{"", h.format, h.head, h.branch, h.shallow}, h.tags...), "\n")
}

// put makes a repository in the folder that has the history and no settings of
// others. The commits stay where they are. Its index is that of the commit.
func (h history) put(ctx context.Context, into string) error {
	repo := repository{git: filepath.Join(into, dotGit), tree: into}
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
	files := map[string]string{
		"HEAD": head + "\n",
		// The time and owner of a file change when it is handed to another user.
		"config":                  "[core]\n\tfilemode = true\n\tbare = false\n\ttrustctime = false\n\tcheckStat = minimal\n\trepositoryformatversion = " + version + "\n",
		"packed-refs":             strings.Join(append(slices.Clone(refs), ""), "\n"),
		"objects/info/alternates": h.store + "\n",
		"refs/heads/":             "",
	}
	if h.shallow != "" {
		files["shallow"] = h.shallow
	}
	for name, content := range files {
		path := filepath.Join(repo.git, name)
		if err := os.MkdirAll(filepath.Dir(path), modeFolder); err != nil {
			return err
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, modeFolder); err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(path, []byte(content), modeFile); err != nil {
			return err
		}
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
