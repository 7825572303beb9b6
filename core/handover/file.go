package handover

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Name of the file.
const Name = "kairos-session-handover.txt"

// header is the first line of every file. A file without it is not ours.
const header = "# KAIROS session handover, format 1"

const preamble = header + `
# The run that advanced last. To resume it, call kairos_begin with uri = chain_uri and session_id = SESSION_ID,
# or run: kairos runs resume --file ` + Name + `
# The file is only a pointer. The server's database decides where the run stands and who may resume it.

`

// Limits of a file.
const (
	maxFile = 1 << 20
	maxText = 200 // runes of a title or name
)

// ErrForeign is returned, wrapped, for a file that no KAIROS server wrote.
var ErrForeign = errors.New("it is not a handover file")

// Pointer is what a resumption takes from the file. The database knows the rest.
type Pointer struct {
	Session   run.ID
	StepIndex int // 1-based; one more than the number of steps when all are solved
}

func encode(s runs.Standing) []byte {
	var solved []string
	for _, x := range s.Solved {
		solved = append(solved, x.Name+"="+string(x.Provenance))
	}
	var out strings.Builder
	out.WriteString(preamble)
	for _, f := range [][2]string{
		{"SESSION_ID", string(s.Run.ID)},
		{"protocol", oneLine(s.Run.Title)},
		{"chain_uri", s.URI},
		{"step_index", strconv.Itoa(s.Run.StepIndex)},
		{"step_count", strconv.Itoa(s.Run.StepCount)},
		{"current_challenge", s.Step},
		{"state", string(s.Run.State)},
		{"partial_state", strings.Join(solved, ", ")},
		{"updated_at", s.Run.UpdatedAt.UTC().Format(time.RFC3339Nano)},
	} {
		if f[1] != "" {
			fmt.Fprintf(&out, "%s: %s\n", f[0], f[1])
		}
	}
	return []byte(out.String())
}

// oneLine removes everything that could pass for a line of its own, and marks hidden
// characters.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	}), " ")
	if r := []rune(s); len(r) > maxText {
		s = string(r[:maxText-1]) + "…"
	}
	return plain.Line(strings.ToValidUTF8(s, "�"))
}

// Parse reads a handover file, which anybody may have written: it only names a run
// to look for in the database. The error wraps ErrForeign if it is another file.
func Parse(content []byte) (Pointer, error) {
	var p Pointer
	first, rest, _ := strings.Cut(strings.ReplaceAll(string(content), "\r\n", "\n"), "\n")
	if first != header || len(content) > maxFile {
		return p, fmt.Errorf("its first line is not %q, or it is larger than any handover file: %w", header, ErrForeign)
	}
	for line := range strings.Lines(rest) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "SESSION_ID":
			p.Session = run.ID(oneLine(value))
		case "step_index":
			p.StepIndex, _ = strconv.Atoi(value) // 0 is refused below
		}
	}
	if p.Session == "" || p.StepIndex < 1 {
		return Pointer{}, errors.New("it lacks SESSION_ID or step_index: it was not copied whole, or it was edited")
	}
	return p, nil
}

// Check returns the reason why the file cannot be kept in the folder, or nil. It
// changes nothing.
func Check(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // the first write creates it
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	}
	_, err = read(dir)
	return err
}

// read returns the content of the file, empty if there is none. It fails for
// anything but a plain file of ours, because writing would destroy it.
func read(dir string) ([]byte, error) {
	path := filepath.Join(dir, Name)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New(Name + " is not a plain file; move it away")
	}
	in, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that took its place would wait for a writer
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, err
	}
	if _, err := Parse(content); len(content) > 0 && errors.Is(err, ErrForeign) {
		return nil, fmt.Errorf("%s was not written by KAIROS, move it away: %w", Name, err)
	}
	return content, nil
}

// write replaces the file atomically. It does not wait for the disk: a power cut
// leaves the old file or the new one, and both are only pointers.
func write(dir string, content []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the folder: %w", err)
	}
	if _, err := read(dir); err != nil {
		return err
	}
	out, err := os.CreateTemp(dir, "."+Name+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(out.Name(), filepath.Join(dir, Name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	return nil
}

// remove removes the file if it names the run.
func remove(dir string, id run.ID) error {
	content, err := read(dir)
	if err != nil || len(content) == 0 {
		return err
	}
	if p, err := Parse(content); err != nil || p.Session != id {
		return nil //nolint:nilerr // the file of another program stays
	}
	if err := os.Remove(filepath.Join(dir, Name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
