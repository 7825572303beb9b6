package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// line is one line of input, or why there is none.
type line struct {
	text    []byte
	tooLong bool
}

// readLines reads in a goroutine of its own, because a read cannot be
// cancelled. The channel is closed at the end of the input.
func readLines(ctx context.Context, in io.Reader) <-chan line {
	lines := make(chan line)
	go func() {
		defer close(lines)
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			l, err := readLine(r)
			if len(bytes.TrimSpace(l.text)) > 0 || l.tooLong {
				select {
				case lines <- l:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// readLine reads to the end of the line, and drops it when it is too long.
func readLine(r *bufio.Reader) (line, error) {
	var l line
	for {
		part, err := r.ReadSlice('\n')
		if len(l.text)+len(part) > maxMessage {
			l.text, l.tooLong = nil, true
		}
		if !l.tooLong {
			l.text = append(l.text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l, err
		}
	}
}
