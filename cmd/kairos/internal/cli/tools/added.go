package tools

import "github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"

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
