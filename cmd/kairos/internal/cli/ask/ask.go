package ask

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
)

// Agreed asks at a terminal. Elsewhere it is an error.
func Agreed(cmd *cobra.Command, p *output.Printer, question string) (bool, error) {
	if !output.IsTerminal(cmd.InOrStdin()) {
		return false, errors.New("nothing was changed, because nobody can be asked here: add --yes")
	}
	if p.Printf("%s [y/N] ", question); p.Err != nil {
		return false, p.Err
	}
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}
