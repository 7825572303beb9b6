package output

import "strings"

// shortID is how many digits of an id are shown. The beginning of a UUIDv7 is
// the time, so runs of one minute differ at the end alone.
const shortID = 8

// shortestID is how many digits at least name something.
const shortestID = 4

// ShortID is the end of a UUID or of a URI that ends in one.
func ShortID(id string) string { return id[max(0, len(id)-shortID):] }

// EndsID reports whether the argument is the end of an id, long enough to be meant.
func EndsID(id, arg string) bool {
	return len(arg) >= shortestID && strings.HasSuffix(id, strings.ToLower(arg)) &&
		strings.Trim(strings.ToLower(arg), "0123456789abcdef-") == ""
}

// Digest is a digest: its beginning at a terminal, and whole where a program reads it.
func (p *Printer) Digest(sum string) string {
	if IsTerminal(p.W) {
		return ShortSum(sum)
	}
	return sum
}

// ID is an id in a list: short at a terminal, and whole where a program reads it.
func (p *Printer) ID(id string) string {
	if IsTerminal(p.W) {
		return ShortID(id)
	}
	return id
}
