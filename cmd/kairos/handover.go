package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/handover"
	"github.com/kairos-mcp/kairos/core/run"
)

// handoverConfig says where kairos-session-handover.txt is kept; nowhere, if
// neither is set.
type handoverConfig struct {
	Dir string `yaml:"dir"`
	// InRoot: under the folder that a run works in.
	InRoot bool `yaml:"in_root"`
}

// handover makes the keeper of the file; nil: there is to be none. A folder that
// a run names counts wherever it is if only the user's own programs name some.
func (c config) handover(reached bool, log *slog.Logger) *handover.Keeper {
	if c.Handover == (handoverConfig{}) {
		return nil
	}
	k := handover.Config{Dir: c.Handover.Dir, Secret: c.stateKey}
	if c.Handover.InRoot {
		k.Allowed, k.AnyRoot = c.rootsAllowed(), !reached
	}
	return handover.New(k, log)
}

// rootsAllowed are the folders that steps may look into whoever asks.
func (c config) rootsAllowed() []string {
	listed, _ := c.Drivers.Settings["roots"].Config["allow"].([]any)
	var allowed []string
	for _, v := range listed {
		if dir, ok := v.(string); ok && dir != "" {
			allowed = append(allowed, dir)
		}
	}
	return allowed
}

// handover looks at the folders in which the file is kept.
func (r *doctorReport) handover(c config) {
	dirs := c.rootsAllowed()
	switch {
	case c.Handover.Dir != "":
		dirs = []string{c.Handover.Dir}
	case !c.Handover.InRoot:
		return
	}
	var problems []finding
	for _, dir := range dirs {
		if err := handover.CheckFolder(dir); err != nil {
			problems = append(problems, finding{
				Problem: fmt.Sprintf("%s is not kept in %s: %v", handover.Name, dir, err),
				Fix:     "let the server write there, or change the section handover of the configuration",
			})
		}
	}
	r.note("handover file", strings.Join(dirs, ", "), problems...)
}

// handed is the block of a handover file that is meant: that of the run, or with
// an empty id the only one there is.
func (c config) handed(path string, id run.ID) (handover.Block, error) {
	var none handover.Block
	content, err := readFile(path)
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
		return file.Blocks[0], c.checkHanded(path, file.Blocks[0])
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
func (c config) checkHanded(path string, b handover.Block) error {
	key, err := c.stateKey()
	if err != nil {
		return err
	}
	mark, err := handover.NewMark(key)
	if err != nil {
		return err
	}
	err = mark.Check(b, localPrincipal)
	if err == nil {
		return nil
	}
	advice := "`kairos runs list` shows the runs that can go on"
	if errors.Is(err, handover.ErrOtherServer) {
		advice = fmt.Sprintf("resume it where that server's database is; if it is this one, say: kairos runs resume %s", b.Session)
	}
	return fmt.Errorf("run %s of %s is not resumed: %w; %s", b.Session, path, err, advice)
}
