package runs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/handover"
	"github.com/kairos-mcp/kairos/core/run"
)

// handoverBlock returns the block of the run, or with an empty id the only block of
// the file. The block is only a pointer: the database decides about the run.
func handoverBlock(path string, id run.ID) (handover.Block, error) {
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
		return file.Blocks[0], nil
	case len(file.Blocks) > 1:
		var lines []string
		for _, b := range file.Blocks {
			lines = append(lines, fmt.Sprintf("  %s  %s, step %d of %d", b.Session, b.Protocol, min(b.StepIndex, b.StepCount), b.StepCount))
		}
		return none, fmt.Errorf("%s names %d runs; say which: kairos runs resume --file %s RUN\n%s", path, len(file.Blocks), path, strings.Join(lines, "\n"))
	case len(file.Damaged) > 0:
		return none, fmt.Errorf("%s is damaged: %s. `kairos runs list` shows the runs that can be resumed", path, strings.Join(file.Damaged, "; "))
	case id != "":
		return none, fmt.Errorf("%s does not name run %s. `kairos runs list` shows the runs that can be resumed", path, id)
	}
	return none, fmt.Errorf("%s names no run. `kairos runs list` shows the runs that can be resumed", path)
}
