package output

import (
	"errors"
	"regexp"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// ExitStatus is 1 for an error that has none of its own.
func ExitStatus(err error) int {
	var with withStatus
	if errors.As(err, &with) {
		return with.status
	}
	return 1
}

// Message is what a person at a terminal can use of an error. Its first line is
// the program's; the others are indented, because a text that the error quotes
// may have lines that look like the program's.
func Message(err error) string {
	text := err.Error()
	var f *fault.Error
	if errors.As(err, &f) {
		text += "\n  next: " + f.ForPeople()
	}
	return continuation.ReplaceAllString(plain.Text(Commands(text)), "\n  $1")
}

var continuation = regexp.MustCompile(`\n([^ \n])`)

// withStatus is an error with the exit status that tells it from others.
type withStatus struct {
	status int
	error
}

// Failure is err with an exit status of its own.
func Failure(status int, err error) error { return withStatus{status, err} }

func (e withStatus) Unwrap() error { return e.error }
