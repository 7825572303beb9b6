package tools

import (
	"fmt"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
)

// Unready counts the servers that were added, and says which of them could not start:
// nothing is started to find out.
func Unready(at *session.Session) (added int, problems []error, err error) {
	file, _, err := read(at)
	if err != nil {
		return 0, nil, err
	}
	for _, name := range file.Names() {
		if err := file.Servers[name].Ready(); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	return len(file.Names()), problems, nil
}

// Missing returns the tools that no added server has.
func Missing(at *session.Session, names []string) ([]string, error) {
	file, _, err := read(at)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, name := range names {
		if len(file.Find(name)) == 0 {
			missing = append(missing, name)
		}
	}
	return missing, nil
}
