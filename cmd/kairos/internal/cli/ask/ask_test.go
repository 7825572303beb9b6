package ask_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ask"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
)

// onceShown calls a function when a question is on the screen.
type onceShown struct {
	strings.Builder
	then func()
}

func (s *onceShown) Write(b []byte) (int, error) {
	defer s.then()
	return s.Builder.Write(b)
}

func TestOnlyAnAnswerToTheQuestionCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		early, typed string
		interrupt    bool
		agreed       bool
	}{
		"yes":                        {typed: "y\n", agreed: true},
		"a line":                     {typed: "\n"},
		"typed before it was asked":  {early: "y\n", typed: "\n"},
		"interrupted without a line": {interrupt: true},
	} {
		t.Run(name, func(t *testing.T) {
			keyboard, terminal, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = keyboard.Close(), terminal.Close() }()
			if _, err := io.WriteString(keyboard, tc.early); err != nil {
				t.Fatal(err)
			}
			ctx, interrupt := context.WithTimeout(t.Context(), 20*time.Second)
			defer interrupt()
			cmd := &cobra.Command{}
			cmd.SetContext(ctx)
			cmd.SetIn(terminal)
			said := &onceShown{then: func() {
				if tc.interrupt {
					interrupt()
				}
				_, _ = io.WriteString(keyboard, tc.typed)
			}}
			agreed, err := ask.Agreed(cmd, &output.Printer{W: said}, "Do it?")
			if agreed != tc.agreed || errors.Is(err, context.Canceled) != tc.interrupt || err != nil && !tc.interrupt {
				t.Errorf("Agreed = %t, %v, want %t", agreed, err, tc.agreed)
			}
		})
	}
}
