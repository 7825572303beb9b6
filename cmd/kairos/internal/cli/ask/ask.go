// Package ask lets the person at the terminal confirm a change.
package ask

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/tty"
)

// Agreed asks at a terminal. Elsewhere it is an error.
func Agreed(cmd *cobra.Command, p *output.Printer, question string) (bool, error) {
	answer, err := Line(cmd, p, question+" [y/N]")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// Line asks at a terminal for a line of text. Elsewhere it is an error. What was
// typed before the question does not answer it, and an interrupt ends the question.
func Line(cmd *cobra.Command, p *output.Printer, question string) (string, error) {
	if !output.IsTerminal(cmd.InOrStdin()) {
		return "", errors.New("nothing was changed, because nobody can be asked here: add --yes")
	}
	tty.Discard(cmd.InOrStdin())
	if p.Printf("%s ", question); p.Err != nil {
		return "", p.Err
	}
	type read struct {
		line string
		err  error
	}
	// A read cannot be interrupted: one that nobody waits for lasts until the
	// program ends.
	got := make(chan read, 1)
	go func() {
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		got <- read{line, err}
	}()
	select {
	case r := <-got:
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			return "", fmt.Errorf("read the answer: %w", r.err)
		}
		return strings.TrimSpace(r.line), nil
	case <-cmd.Context().Done():
		p.Printf("\n")
		return "", errors.Join(context.Canceled, p.Err)
	}
}
