package workspace

import (
	"bufio"
	"context"
	"crypto/sha1" //nolint:gosec // ids of git are made of it
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// Git believes the names of its files: an object that somebody overwrote is read as
// if it were the old one. Here every object is hashed, so that what is read belongs
// to the id that was asked for.

// maxObject bounds commits, tags and lists of files.
const maxObject = 16 << 20 // bytes

// errNoObject is wrapped if the repository lacks an object.
var errNoObject = errors.New("the repository lacks it; fetch it with git")

// contents visits the objects with these ids in their order, and checks what visit
// has read of each.
func (r repository) contents(ctx context.Context, ids []string, visit func(i int, kind string, size int64, content io.Reader) error) error {
	if len(ids) == 0 {
		return nil
	}
	return r.run(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"), func(from *bufio.Reader) error {
		for i, id := range ids {
			if err := content(from, id, func(kind string, size int64, from io.Reader) error { return visit(i, kind, size, from) }); err != nil {
				return err
			}
		}
		return nil
	}, "cat-file", "--batch")
}

// content reads one object.
func content(from *bufio.Reader, id string, visit func(kind string, size int64, content io.Reader) error) error {
	header, err := from.ReadString('\n')
	if err != nil {
		return err
	}
	words := strings.Fields(header) // id, type, size
	if len(words) == 2 && words[1] == "missing" {
		return fmt.Errorf("object %s: %w", id, errNoObject)
	}
	if len(words) != 3 || words[0] != id {
		return fmt.Errorf("git says %.200q of the object %s", header, id)
	}
	size, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return err
	}
	sum := sha1.New() //nolint:gosec // as above
	if len(id) == hex.EncodedLen(sha256.Size) {
		sum = sha256.New()
	}
	fmt.Fprintf(sum, "%s %d\x00", words[1], size)
	whole := io.TeeReader(io.LimitReader(from, size), sum)
	if err := visit(words[1], size, whole); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, whole); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != id {
		return fmt.Errorf("the object %s of the repository is not what its id says: it was changed, or is damaged; run git fsck", id)
	}
	_, err = from.Discard(len("\n"))
	return err
}

// object reads an object that is small.
func (r repository) object(ctx context.Context, id string) (kind, text string, err error) {
	err = r.contents(ctx, []string{id}, func(_ int, is string, size int64, from io.Reader) error {
		kind = is
		text, err = readObject(from, size)
		return err
	})
	return kind, text, err
}

func readObject(from io.Reader, size int64) (string, error) {
	if size > maxObject {
		return "", fmt.Errorf("an object has %d bytes, at most %d are read", size, maxObject)
	}
	text, err := io.ReadAll(from)
	return string(text), err
}

// peel follows tags to the commit that an id names, and returns that of its files.
func (r repository) peel(ctx context.Context, id string) (tree string, err error) {
	for range 8 {
		kind, text, err := r.object(ctx, id)
		if err != nil {
			return "", err
		}
		line, _, _ := strings.Cut(text, "\n")
		word, next, _ := strings.Cut(line, " ")
		switch {
		case kind == "commit" && word == "tree":
			return next, nil
		case kind == "tag" && word == "object":
			id = next
		default:
			return "", fmt.Errorf("it names a %s: %w", kind, errNoCommit)
		}
	}
	return "", fmt.Errorf("too many tags lead to one another: %w", errNoCommit)
}

// listed is a folder of a commit.
type listed struct{ path, id string }

// objects lists all files below a folder of a commit, at most so many, and its
// submodules.
func (r repository) objects(ctx context.Context, tree string, most int) (map[string]object, error) {
	out := make(map[string]object)
	level := []listed{{"", tree}}
	for depth := 0; len(level) > 0; depth++ {
		if depth > maxDepth {
			return nil, fmt.Errorf("the commit has more than %d folders in one another", maxDepth)
		}
		ids := make([]string, len(level))
		for i, at := range level {
			ids[i] = at.id
		}
		var next []listed
		err := r.contents(ctx, ids, func(i int, kind string, size int64, from io.Reader) error {
			if kind != "tree" {
				return fmt.Errorf("the folder %q of the commit is a %s", level[i].path, kind)
			}
			text, err := readObject(from, size)
			if err != nil {
				return err
			}
			return entriesOfTree(text, len(ids[i])/2, func(name string, o object) error {
				if name = path.Join(level[i].path, name); o.kind == empty {
					next = append(next, listed{name, o.id})
				} else {
					out[name] = o
				}
				if len(out)+len(next) > most {
					return fmt.Errorf("the commit has more than %d files", most)
				}
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		level = next
	}
	return out, nil
}

// entriesOfTree visits what a tree of git lists. Folders have the kind empty.
func entriesOfTree(text string, width int, visit func(name string, o object) error) error {
	kinds := map[string]kind{"100644": file, "100664": file, "100755": executable, "120000": link, "160000": submodule, "40000": empty, "040000": empty}
	for text != "" {
		about, rest, ok := strings.Cut(text, "\x00")
		mode, name, _ := strings.Cut(about, " ")
		if !ok || name == "" || name == "." || name == ".." || strings.Contains(name, "/") || kinds[mode] == 0 || len(rest) < width {
			return fmt.Errorf("a commit lists %.200q, which is not an entry of a tree", about)
		}
		if err := visit(name, object{kinds[mode], hex.EncodeToString([]byte(rest[:width]))}); err != nil {
			return err
		}
		text = rest[width:]
	}
	return nil
}
