package handover

import (
	"bytes"
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

// header is the first line of every file: what has another is not ours.
const header = "# KAIROS session handover, format 1"

const preamble = header + `
# Each block is a run that can go on: call kairos_begin with uri = chain_uri and session_id = SESSION_ID,
# or say: kairos runs resume --file ` + Name + `
# It only says where to look. The server's database decides, and who may go on.
`

// Bounds of a file.
const (
	maxFile   = 1 << 20
	maxBlocks = 256
	maxLine   = 4 << 10
)

// ErrForeign is returned, wrapped, for a file that no KAIROS server wrote.
var ErrForeign = errors.New("it is no handover file")

// Block is one run as the file tells it.
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

	// Server that wrote it and Owner of the run, as only that server can tell.
	Server, Owner string
	seal          string
	sealed        string // what the seal is of
}

// File is what a handover file holds.
type File struct {
	Blocks []Block
	// Damaged says what is wrong with blocks that cannot be used, by line.
	Damaged []string
}

// field is one line of a block.
type field struct {
	key string
	set func(b *Block, value string) error
	get func(b Block) string
}

// fields of a block in the order of their lines. All must be there, but for
// those that say nothing.
var fields = []field{
	{"SESSION_ID", func(b *Block, v string) error { b.Session = run.ID(v); return nil }, func(b Block) string { return string(b.Session) }},
	{"protocol", func(b *Block, v string) error { b.Protocol = v; return nil }, func(b Block) string { return b.Protocol }},
	{"chain_uri", func(b *Block, v string) error { b.ChainURI = v; return nil }, func(b Block) string { return b.ChainURI }},
	{"step_index", func(b *Block, v string) error { return number(v, &b.StepIndex) }, func(b Block) string { return strconv.Itoa(b.StepIndex) }},
	{"step_count", func(b *Block, v string) error { return number(v, &b.StepCount) }, func(b Block) string { return strconv.Itoa(b.StepCount) }},
	{"current_challenge", func(b *Block, v string) error { b.Challenge = v; return nil }, func(b Block) string { return b.Challenge }},
	{"state", func(b *Block, v string) error { b.State = run.State(v); return nil }, func(b Block) string { return string(b.State) }},
	{"partial_state", setSolved, func(b Block) string { return solvedText(b.Solved) }},
	{"updated_at", setUpdated, func(b Block) string { return b.UpdatedAt.UTC().Format(time.RFC3339Nano) }},
	{"server", func(b *Block, v string) error { b.Server = v; return nil }, func(b Block) string { return b.Server }},
	{"owner", func(b *Block, v string) error { b.Owner = v; return nil }, func(b Block) string { return b.Owner }},
}

// sealKey is the last line of a block: one that was not written whole lacks it.
const sealKey = "seal"

func number(v string, to *int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || strconv.Itoa(n) != v {
		return fmt.Errorf("%q is no number", v)
	}
	*to = n
	return nil
}

func setUpdated(b *Block, v string) (err error) {
	if b.UpdatedAt, err = time.Parse(time.RFC3339Nano, v); err != nil {
		return fmt.Errorf("%q is no time", v)
	}
	return nil
}

func setSolved(b *Block, v string) error {
	b.Solved = nil
	for part := range strings.SplitSeq(v, ", ") {
		name, by, found := strings.Cut(part, "=")
		if part != "" && !found {
			return fmt.Errorf("%q is no solved step", part)
		}
		if found {
			b.Solved = append(b.Solved, runs.SolvedName{Name: name, Provenance: driver.Provenance(by)})
		}
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

// blockOf tells where a run stands, on one line each whatever the texts hold.
func blockOf(s runs.Standing) Block {
	return Block{
		Session: s.Run.ID, Protocol: oneLine(s.Run.Title), ChainURI: s.URI, StepIndex: s.Run.StepIndex, StepCount: s.Run.StepCount,
		Challenge: s.Step, State: s.Run.State, Solved: s.Solved, UpdatedAt: s.Run.UpdatedAt.UTC(),
	}
}

// oneLine is the text without what could pass for a line of its own.
func oneLine(s string) string {
	const limit = 200 // runes
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	}), " ")
	if r := []rune(s); len(r) > limit {
		s = string(r[:limit-1]) + "…"
	}
	return strings.ToValidUTF8(s, "�")
}

// text is the block's lines without its seal.
func (b Block) text() string {
	var out strings.Builder
	for _, f := range fields {
		if v := f.get(b); v != "" {
			fmt.Fprintf(&out, "%s: %s\n", f.key, v)
		}
	}
	return out.String()
}

// encode is the file with these blocks.
func encode(blocks []Block) []byte {
	var out bytes.Buffer
	out.WriteString(preamble)
	for _, b := range blocks {
		fmt.Fprintf(&out, "\n%s%s: %s\n", b.sealed, sealKey, b.seal)
	}
	return out.Bytes()
}

// Parse reads a handover file. What it holds is what somebody wrote: see
// Mark.Check. The error wraps ErrForeign if it is none.
func Parse(content []byte) (File, error) {
	var f File
	if len(content) > maxFile {
		return f, fmt.Errorf("it has %d bytes, more than any handover file: %w", len(content), ErrForeign)
	}
	first, rest, _ := strings.Cut(strings.ReplaceAll(string(content), "\r\n", "\n"), "\n")
	if first != header {
		return f, fmt.Errorf("its first line is not %q: %w", header, ErrForeign)
	}
	line, at := 1, 0
	var lines []string
	end := func() {
		if len(lines) == 0 {
			return
		}
		b, err := parseBlock(lines)
		switch {
		case err != nil:
			f.Damaged = append(f.Damaged, fmt.Sprintf("line %d: %v", at, err))
		case len(f.Blocks) < maxBlocks:
			f.Blocks = append(f.Blocks, b)
		}
		lines = nil
	}
	for text := range strings.SplitSeq(rest, "\n") {
		line++
		switch {
		case strings.HasPrefix(text, "#"):
		case strings.TrimSpace(text) == "":
			end()
		default:
			if len(lines) == 0 {
				at = line
			}
			lines = append(lines, text)
		}
	}
	end()
	return f, nil
}

// parseBlock reads the lines of one block.
func parseBlock(lines []string) (Block, error) {
	var b Block
	seen := make([]string, 0, len(lines))
	for i, line := range lines {
		key, value, found := strings.Cut(line, ": ")
		switch {
		case len(line) > maxLine || !found || key == "" || value == "":
			return b, fmt.Errorf("the run %s has a line that is not \"key: value\"", named(b))
		case slices.Contains(seen, key):
			return b, fmt.Errorf("the run %s has %s twice", named(b), oneLine(key))
		}
		seen = append(seen, key)
		if key == sealKey {
			if i < len(lines)-1 {
				return b, fmt.Errorf("the run %s goes on behind its seal", named(b))
			}
			b.seal, b.sealed = value, strings.Join(lines[:i], "\n")+"\n"
			continue
		}
		if at := slices.IndexFunc(fields, func(f field) bool { return f.key == key }); at >= 0 {
			if err := fields[at].set(&b, value); err != nil {
				return b, fmt.Errorf("the run %s: %s: %w", named(b), key, err)
			}
		}
	}
	switch {
	case b.seal == "":
		return b, fmt.Errorf("the run %s is only half there: its last line, %s, is missing", named(b), sealKey)
	case b.Session == "" || b.ChainURI == "" || b.Server == "" || b.UpdatedAt.IsZero() || !b.State.Live():
		return b, fmt.Errorf("the run %s lacks what every run has", named(b))
	}
	return b, nil
}

func named(b Block) string {
	if b.Session == "" {
		return "without SESSION_ID"
	}
	return oneLine(string(b.Session))
}
