package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
)

// maxNamed bounds the files that an error names.
const maxNamed = 10

// Protect fails if a file of the snapshot that one of the globs matches is not as
// it is in a commit: it was changed, added or deleted, or has another mode. The
// commit is named by its id, which nobody can move, or by a ref that is not
// ambiguous. Content is compared byte by byte, so that files which git converts
// at checkout count as changed. A glob ends in /** for everything in a folder.
func (s Snapshot) Protect(ctx context.Context, ref string, globs []string) error {
	if err := s.protect(ctx, ref, globs); err != nil {
		return fmt.Errorf("compare protected files of the workspace %s with %.200q: %w", s.dir, ref, err)
	}
	return nil
}

func (s Snapshot) protect(ctx context.Context, ref string, globs []string) error {
	patterns, err := readGlobs(globs)
	if err != nil {
		return err
	}
	repo, err := repositoryOf(s.dir, s.options.roots(s.dir))
	if err != nil {
		return err
	}
	if !repo.exists() {
		return errors.New("the workspace is not the top of a git work tree, so there is no commit to compare with")
	}
	tree, err := repo.commit(ctx, ref)
	if err != nil {
		return err
	}
	then, err := repo.objects(ctx, tree, 4*s.options.MaxFiles)
	if err != nil {
		return err
	}
	p := protection{patterns: patterns, then: then, now: make(map[string]entry)}
	for _, e := range s.entries {
		if e.kind != empty {
			p.now[e.path] = e
		}
	}
	if err := p.choose(); err != nil {
		return err
	}
	found, err := p.differences(ctx, repo, s.options.MaxBytes)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("%s; restore what it had there, or have the operator change what is protected", namesOf(found))
	}
	return nil
}

func namesOf(found []string) string {
	if more := len(found) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(found[:maxNamed], ", "), more)
	}
	return strings.Join(found, ", ")
}

// readGlobs reads globs of files as the key files of a challenge has them, and
// besides those, folder/**.
func readGlobs(globs []string) ([]filecheck.Pattern, error) {
	if len(globs) == 0 {
		return nil, errors.New("no paths are protected; name some, such as tests/**")
	}
	patterns := make([]filecheck.Pattern, len(globs))
	for i, glob := range globs {
		if glob == "**" || strings.HasSuffix(glob, "/**") {
			glob += "/*"
		}
		list, err := json.Marshal([]map[string]string{{"glob": glob}})
		if err != nil {
			return nil, err
		}
		checks, found := filecheck.Parse(list)
		if len(found) > 0 {
			return nil, fmt.Errorf("the path %.200q is not a glob: %s", globs[i], fields.Text(found))
		}
		patterns[i] = checks[0].Glob
	}
	return patterns, nil
}

// matches is Pattern.Match for any name that a file can have.
func matches(p filecheck.Pattern, name string) bool {
	parts := strings.Split(name, "/")
	w := p.Start()
	for _, folder := range parts[:len(parts)-1] {
		w = w.Enter(folder)
	}
	return w.Takes(parts[len(parts)-1])
}

// object is what a commit has at a path.
type object struct {
	kind kind // submodule for another repository
	id   string
}

// submodule is the kind of an object that is a commit of another repository.
const submodule kind = 's'

// errNoCommit is wrapped if a ref leads to none.
var errNoCommit = errors.New("the repository has no such commit; fetch it, or correct the ref")

// commit finds the commit that a ref names, and only one, and returns the id of its
// files.
func (r repository) commit(ctx context.Context, ref string) (tree string, err error) {
	if ref == "" || strings.HasPrefix(ref, "-") || strings.ContainsAny(ref, "*?[\\ \n\x00") {
		return "", errors.New("it does not name a commit; write a ref such as origin/main, or the id of a commit")
	}
	// Otherwise a new tag could take the place of a branch.
	named, err := r.text(ctx, "for-each-ref", "--format=%(refname)", "refs/tags/"+ref, "refs/heads/"+ref, "refs/remotes/"+ref)
	if err != nil {
		return "", err
	}
	if all := strings.Fields(named); len(all) > 1 {
		return "", fmt.Errorf("it is ambiguous; write the one you mean: %s", namesOf(all))
	}
	id, err := r.text(ctx, "rev-parse", "--quiet", "--verify", ref)
	if err != nil {
		return "", err
	}
	if id == "" {
		return "", errNoCommit
	}
	tree, err = r.peel(ctx, id)
	if errors.Is(err, errNoObject) {
		err = errors.Join(errNoCommit, err)
	}
	return tree, err
}

// protection compares the files that globs match.
type protection struct {
	patterns []filecheck.Pattern
	then     map[string]object
	now      map[string]entry
}

// choose keeps the files that a glob matches. A glob that matches none is a
// mistake, and so is one that reaches into another repository.
func (p protection) choose() error {
	used := make([]bool, len(p.patterns))
	takes := func(name string) bool {
		any := false
		for i, pattern := range p.patterns {
			if matches(pattern, name) {
				used[i], any = true, true
			}
		}
		return any
	}
	var others []string
	for name, o := range p.then {
		if o.kind == submodule {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	maps.DeleteFunc(p.then, func(name string, _ object) bool { return !takes(name) })
	maps.DeleteFunc(p.now, func(name string, _ entry) bool { return !takes(name) })
	for _, other := range others {
		_, itself := p.then[other]
		for name := range p.now {
			itself = itself || strings.HasPrefix(name, other+"/")
		}
		if itself {
			return fmt.Errorf("a path matches files of the submodule %q, which the commit does not hold; protect files of this repository only", other)
		}
	}
	for i, pattern := range p.patterns {
		if !used[i] {
			return fmt.Errorf("no file matches %q, neither in the commit nor in the workspace; correct the path (folder/** for all files in a folder)", pattern)
		}
	}
	return nil
}

// differences names the files that differ, sorted, and says how.
func (p protection) differences(ctx context.Context, repo repository, limit int64) ([]string, error) {
	var found []string
	differs := func(name, how string) { found = append(found, fmt.Sprintf("%q was %s", name, how)) }
	var read []string
	for name, e := range p.now {
		then, ok := p.then[name]
		switch {
		case !ok:
			differs(name, "added")
		case then.kind != e.kind && (then.kind == link || e.kind == link):
			differs(name, "replaced")
		case then.kind != e.kind:
			differs(name, "changed in its mode")
		default:
			read = append(read, name)
		}
	}
	for name := range p.then {
		if _, ok := p.now[name]; !ok {
			differs(name, "deleted")
		}
	}
	slices.Sort(read)
	sums, err := repo.sums(ctx, p.then, read, limit)
	if err != nil {
		return nil, err
	}
	for i, name := range read {
		content := p.now[name].content
		if p.now[name].kind == link {
			content = sumOf(content)
		}
		if content != sums[i] {
			differs(name, "changed")
		}
	}
	slices.Sort(found)
	return found, nil
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// sums are the SHA-256 of the contents that the objects have, in the order of the
// names. At most limit bytes are read.
func (r repository) sums(ctx context.Context, objects map[string]object, names []string, limit int64) ([]string, error) {
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = objects[name].id
	}
	out := make([]string, len(names))
	err := r.contents(ctx, ids, func(i int, kind string, size int64, from io.Reader) error {
		if kind != "blob" {
			return fmt.Errorf("%q is a %s in the commit", names[i], kind)
		}
		if limit -= size; limit < 0 {
			return errors.New("the protected files of the commit are larger than a workspace may be")
		}
		sum := sha256.New()
		_, err := io.Copy(sum, from)
		out[i] = hex.EncodeToString(sum.Sum(nil))
		return err
	})
	return out, err
}
