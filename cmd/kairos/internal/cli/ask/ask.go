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
	answer, err := Line(cmd, p, question+" [y/N]")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// Line asks at a terminal for a line of text. Elsewhere it is an error.
func Line(cmd *cobra.Command, p *output.Printer, question string) (string, error) {
	if !output.IsTerminal(cmd.InOrStdin()) {
		return "", errors.New("nothing was changed, because nobody can be asked here: add --yes")
	}
	if p.Printf("%s ", question); p.Err != nil {
		return "", p.Err
	}
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(line), nil
}
