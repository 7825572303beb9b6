package driverhost

import (
	"io"
	"os"
)

// CleanLine is cleanLine, for the fuzz test of what drivers print.
func CleanLine(line []byte) string { return cleanLine(line) }

// SplitLines feeds chunks to a line splitter and returns the lines.
func SplitLines(maxBytes int, chunks ...[]byte) []string {
	var lines []string
	s := &lineSplitter{max: maxBytes, emit: func(line []byte, _ bool) { lines = append(lines, string(line)) }}
	for _, c := range chunks {
		if n, err := s.Write(c); n != len(c) || err != nil {
			panic("a line splitter takes everything")
		}
	}
	s.flush()
	return lines
}

// States lists the lifecycle states and Events what triggers transitions.
func States() []string {
	var out []string
	for s := range next {
		out = append(out, string(s))
	}
	return out
}

// Events: see States.
func Events() []string {
	seen := map[string]bool{}
	var out []string
	for _, events := range next {
		for h := range events {
			if !seen[string(h)] {
				seen[string(h)] = true
				out = append(out, string(h))
			}
		}
	}
	return out
}

// Step is state.step.
func Step(from, e string) (string, error) {
	to, err := State(from).step(event(e))
	return string(to), err
}

// ReadLeftovers reads a pipe as the output of a process is read.
func ReadLeftovers(pipe *os.File) ([]byte, error) { return io.ReadAll(&leftovers{file: pipe}) }
