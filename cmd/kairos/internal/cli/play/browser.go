package play

import (
	"context"
	"os"
	"os/exec"
	"runtime"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/terminal"
)

// browser opens an address for the person at this terminal; nil: there is no
// screen to open it on, and a browser in the terminal would take it from us.
func browser() func(context.Context, string) error {
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	path, err := exec.LookPath(opener)
	if err != nil {
		return nil
	}
	return func(ctx context.Context, address string) error {
		cmd := exec.CommandContext(ctx, path, address)
		cmd.Env = terminal.Environment()
		return cmd.Run()
	}
}
