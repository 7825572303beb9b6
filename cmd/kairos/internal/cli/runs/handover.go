package runs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/handover"
	"github.com/kairos-mcp/kairos/core/run"
)

// handed is the block of a handover file that is meant: that of the run, or with
// an empty id the only one there is.
func handed(c config.Config, path string, id run.ID) (handover.Block, error) {
	var none handover.Block
	content, err := files.Read(path)
	if err != nil {
		return none, fmt.Errorf("read the handover file: %w", err)
	}
	file, err := handover.Parse(content)
	if err != nil {
		return none, fmt.Errorf("%s cannot be used: %w", path, err)
	}
	if id != "" {
		file.Blocks = slices.DeleteFunc(file.Blocks, func(b handover.Block) bool { return b.Session != id })
	}
	switch {
	case len(file.Blocks) == 1:
		return file.Blocks[0], checkHanded(c, path, file.Blocks[0])
	case len(file.Blocks) > 1:
		var lines []string
		for _, b := range file.Blocks {
			lines = append(lines, fmt.Sprintf("  %s  %s, step %d of %d", b.Session, b.Protocol, min(b.StepIndex, b.StepCount), b.StepCount))
		}
		return none, fmt.Errorf("%s names %d runs; say which: kairos runs resume --file %s RUN\n%s", path, len(file.Blocks), path, strings.Join(lines, "\n"))
	case len(file.Damaged) > 0:
		return none, fmt.Errorf("%s is damaged: %s. `kairos runs list` shows the runs that can go on", path, strings.Join(file.Damaged, "; "))
	case id != "":
		return none, fmt.Errorf("%s does not name run %s. `kairos runs list` shows the runs that can go on", path, id)
	}
	return none, fmt.Errorf("%s names no run. `kairos runs list` shows the runs that can go on", path)
}

// checkHanded says why the block is not relied on.
func checkHanded(c config.Config, path string, b handover.Block) error {
	key, err := c.StateKey()
	if err != nil {
		return err
	}
	mark, err := handover.NewMark(key)
	if err != nil {
		return err
	}
	err = mark.Check(b, app.LocalPrincipal)
	if err == nil {
		return nil
	}
	advice := "`kairos runs list` shows the runs that can go on"
	if errors.Is(err, handover.ErrOtherServer) {
		advice = fmt.Sprintf("resume it where that server's database is; if it is this one, say: kairos runs resume %s", b.Session)
	}
	return fmt.Errorf("run %s of %s is not resumed: %w; %s", b.Session, path, err, advice)
}
