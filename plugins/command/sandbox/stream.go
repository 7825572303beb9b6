package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

// Output is what a command wrote to stdout or stderr.
type Output struct {
	// Text is valid UTF-8: the beginning and the end, where it was too long.
	Text string
	// Bytes and Digest, as "sha256:" and hexadecimal digits, are of everything.
	Bytes  int64
	Digest string
	// Notes say how Text differs from what was written.
	Notes []string
}

// stream keeps the beginning and the end of what is written, and takes the digest
// of all. One goroutine writes.
type stream struct {
	sum        hash.Hash
	head, tail []byte
	half       int
	bytes      int64
}

func newStream(kib int) *stream { return &stream{sum: sha256.New(), half: kib << 10 / 2} }

func (s *stream) Write(b []byte) (int, error) {
	n := len(b)
	s.bytes += int64(n)
	_, _ = s.sum.Write(b) // never fails
	if room := s.half - len(s.head); room > 0 {
		taken := min(room, len(b))
		s.head, b = append(s.head, b[:taken]...), b[taken:]
	}
	if len(b) > s.half {
		b = b[len(b)-s.half:]
	}
	if s.tail = append(s.tail, b...); len(s.tail) > 2*s.half {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-s.half:]...)
	}
	return n, nil
}

func (s *stream) output() Output {
	tail := s.tail[max(0, len(s.tail)-s.half):]
	out := Output{Bytes: s.bytes, Digest: "sha256:" + hex.EncodeToString(s.sum.Sum(nil))}
	text := string(s.head)
	if cut := s.bytes - int64(len(s.head)) - int64(len(tail)); cut > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d bytes in the middle are left out", cut))
		text += fmt.Sprintf("\n[... %d bytes left out ...]\n", cut)
	}
	text += string(tail)
	out.Text = strings.ToValidUTF8(text, "\uFFFD")
	if len(out.Notes) == 0 && out.Text != text {
		out.Notes = append(out.Notes, "bytes outside UTF-8 are shown as \uFFFD")
	}
	return out
}
