package handover

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Name of the file.
const Name = "kairos-session-handover.txt"

// header is the first line of every file. A file without it is not ours.
const header = "# KAIROS session handover, format 1"

const preamble = header + `
# Each block is a run that can be resumed: call kairos_begin with uri = chain_uri and session_id = SESSION_ID,
# or run: kairos runs resume --file ` + Name + `
# The file is only a pointer. The server's database decides where the run stands and who may resume it.
`

// Limits of a file.
const (
	maxFile   = 1 << 20
	maxBlocks = 256
	maxText   = 200 // runes of a title or name
)

// ErrForeign is returned, wrapped, for a file that no KAIROS server wrote.
var ErrForeign = errors.New("it is not a handover file")

// Block is one run as the file describes it.
type Block struct {
	Session   run.ID
	Protocol  string // title
	ChainURI  string
	StepIndex int // 1-based; one more than StepCount when all are solved
	StepCount int
	Challenge string // name of the open step
	State     run.State
	Solved    []runs.SolvedName
	UpdatedAt time.Time
}

// File is the content of a handover file.
type File struct {
	Blocks []Block
	// Damaged describes, with their line numbers, the blocks that cannot be read.
	Damaged []string
}

// field is one line of a block.
type field struct {
	key string
	set func(b *Block, value string) error
	get func(b Block) string
}

// fields lists the lines of a block in order. Empty values are left out.
var fields = []field{
	{"SESSION_ID", func(b *Block, v string) error { b.Session = run.ID(v); return nil }, func(b Block) string { return string(b.Session) }},
	{"protocol", func(b *Block, v string) error { b.Protocol = v; return nil }, func(b Block) string { return b.Protocol }},
	{"chain_uri", func(b *Block, v string) error { b.ChainURI = v; return nil }, func(b Block) string { return b.ChainURI }},
	{"step_index", func(b *Block, v string) error { return parseNumber(v, &b.StepIndex) }, func(b Block) string { return strconv.Itoa(b.StepIndex) }},
	{"step_count", func(b *Block, v string) error { return parseNumber(v, &b.StepCount) }, func(b Block) string { return strconv.Itoa(b.StepCount) }},
	{"current_challenge", func(b *Block, v string) error { b.Challenge = v; return nil }, func(b Block) string { return b.Challenge }},
	{"state", func(b *Block, v string) error { b.State = run.State(v); return nil }, func(b Block) string { return string(b.State) }},
	{"partial_state", parseSolved, func(b Block) string { return solvedText(b.Solved) }},
	{"updated_at", parseUpdated, func(b Block) string { return b.UpdatedAt.UTC().Format(time.RFC3339Nano) }},
}

func parseNumber(v string, to *int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a number", v)
	}
	*to = n
	return nil
}

func parseUpdated(b *Block, v string) (err error) {
	if b.UpdatedAt, err = time.Parse(time.RFC3339Nano, v); err != nil {
		return fmt.Errorf("%q is not a time", v)
	}
	return nil
}

func parseSolved(b *Block, v string) error {
	b.Solved = nil
	for part := range strings.SplitSeq(v, ", ") {
		name, provenance, found := strings.Cut(part, "=")
		if !found {
			return fmt.Errorf("%q is not a solved step", part)
		}
		b.Solved = append(b.Solved, runs.SolvedName{Name: name, Provenance: driver.Provenance(provenance)})
	}
	return nil
}

func solvedText(solved []runs.SolvedName) string {
	parts := make([]string, len(solved))
	for i, s := range solved {
		parts[i] = s.Name + "=" + string(s.Provenance)
	}
	return strings.Join(parts, ", ")
}

// blockOf describes where a run stands.
func blockOf(s runs.Standing) Block {
	return Block{
		Session: s.Run.ID, Protocol: oneLine(s.Run.Title), ChainURI: s.URI, StepIndex: s.Run.StepIndex, StepCount: s.Run.StepCount,
		Challenge: s.Step, State: s.Run.State, Solved: s.Solved, UpdatedAt: s.Run.UpdatedAt.UTC(),
	}
}

// oneLine removes everything that could pass for a line of its own.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	}), " ")
	if r := []rune(s); len(r) > maxText {
		s = string(r[:maxText-1]) + "…"
	}
	return strings.ToValidUTF8(s, "�")
}

// encode returns the file with the blocks that changed last first, at most maxBlocks.
func encode(blocks []Block) []byte {
	slices.SortStableFunc(blocks, func(a, b Block) int {
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), cmp.Compare(a.Session, b.Session))
	})
	var out bytes.Buffer
	out.WriteString(preamble)
	for _, b := range blocks[:min(len(blocks), maxBlocks)] {
		out.WriteString("\n")
		for _, f := range fields {
			if v := f.get(b); v != "" {
				fmt.Fprintf(&out, "%s: %s\n", f.key, v)
			}
		}
	}
	return out.Bytes()
}

// Parse reads a handover file, which anybody may have written: a block only names
// a run to look for in the database. Unknown keys are ignored. The error wraps
// ErrForeign.
func Parse(content []byte) (File, error) {
	var f File
	if len(content) > maxFile {
		return f, fmt.Errorf("it has %d bytes, more than any handover file: %w", len(content), ErrForeign)
	}
	first, rest, _ := strings.Cut(strings.ReplaceAll(string(content), "\r\n", "\n"), "\n")
	if first != header {
		return f, fmt.Errorf("its first line is not %q: %w", header, ErrForeign)
	}
	line := 2
	for text := range strings.SplitSeq(rest, "\n\n") {
		if b, found, err := parseBlock(text); err != nil {
			first := line + len(text) - len(strings.TrimLeft(text, "\n"))
			f.Damaged = append(f.Damaged, fmt.Sprintf("the block at line %d: %v", first, err))
		} else if found && len(f.Blocks) < maxBlocks {
			f.Blocks = append(f.Blocks, b)
		}
		line += strings.Count(text, "\n") + 2
	}
	return f, nil
}

// parseBlock reads the lines of one block. It reports false if there are only
// comments.
func parseBlock(text string) (b Block, found bool, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		found = true
		key, value, ok := strings.Cut(line, ": ")
		if !ok {
			return b, true, errors.New("it has a line that is not \"key: value\"")
		}
		if at := slices.IndexFunc(fields, func(f field) bool { return f.key == key }); at >= 0 {
			if err := fields[at].set(&b, oneLine(value)); err != nil {
				return b, true, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	if found && (b.Session == "" || b.ChainURI == "" || b.UpdatedAt.IsZero() || !b.State.Live()) {
		return b, true, errors.New("it lacks SESSION_ID, chain_uri, updated_at or the state of a run that can be resumed")
	}
	return b, found, nil
}
