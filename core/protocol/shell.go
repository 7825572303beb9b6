package protocol

import (
	"errors"
	"strings"
)

// shellWord is a value as one single-quoted POSIX shell word.
func shellWord(value, before string) (string, error) {
	if strings.ContainsRune(value, 0) {
		return "", errors.New("a value for a command contains a NUL character")
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'", nil
}

func checkQuoting(s Step) []Diagnostic { return nil }
