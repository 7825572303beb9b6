// Command recording plays a protocol with the real program in a real terminal
// (tmux) and writes what a person sees as an animated SVG for the README. Run
// it from the root of a built checkout: go run ./docs/recording.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	width, height = 106, 30 // characters
	patience      = 30 * time.Second
)

// A moment is what the person types and what the terminal shows then.
type moment struct {
	keys  []string // as tmux names them
	shows string   // appears on the last lines of the screen
	hold  float64  // seconds that the recording stays there
}

var play = []moment{
	{nil, `\$ $`, 0.5},
	{[]string{"kairos run release-a-version.md --workspace . --input '{\"version\": \"1.4.0\"}'"}, `1\.4\.0"}'`, 1.5},
	{[]string{"Enter"}, `Accept this\?[\s\S]*enter submit`, 4},
	{[]string{"o"}, `> once`, 1.5},
	{[]string{"Enter"}, `Step 1 [\s\S]*enter submit`, 2.5},
	{[]string{"Exports are twice as fast."}, `twice as fast`, 1.5},
	{[]string{"Enter"}, `Step 2 [\s\S]*enter submit`, 4},
	{[]string{"a"}, `> approve`, 1.5},
	{[]string{"Enter"}, `Step 3 [\s\S]*enter submit`, 4},
	{[]string{"a"}, `> approve`, 1},
	{[]string{"Enter"}, `Step 4 [\s\S]*enter submit`, 3},
	{[]string{"a"}, `> approve`, 1},
	{[]string{"Enter"}, `Step 5 [\s\S]*enter submit`, 4},
	{[]string{"a"}, `> approve`, 1},
	{[]string{"Enter"}, `verified: [\s\S]*\$ $`, 8},
}

func main() {
	protocol := flag.String("protocol", "examples/release-a-version.md", "the protocol that is played")
	bin := flag.String("bin", "bin", "folder of the built program")
	out := flag.String("out", "docs/img/run.svg", "the picture that is written")
	flag.Parse()
	if err := record(*protocol, *bin, *out); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func record(protocol, bin, out string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	folder, err := os.MkdirTemp("", "recording")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	text, err := os.ReadFile(protocol)
	if err != nil {
		return err
	}
	work := filepath.Join(folder, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, filepath.Base(protocol)), text, 0o600); err != nil {
		return err
	}
	program, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	t := terminal{socket: filepath.Join(folder, "tmux.sock")}
	if err := t.open(ctx, work, program); err != nil {
		return err
	}
	defer t.close()
	var frames []frame
	for _, m := range play {
		if err := t.send(ctx, m.keys); err != nil {
			return err
		}
		screen, err := t.wait(ctx, regexp.MustCompile(m.shows))
		if err != nil {
			return err
		}
		frames = append(frames, frame{screen, m.hold})
	}
	return os.WriteFile(out, []byte(draw(frames)), 0o644) //nolint:gosec // a picture that everybody sees
}

// terminal is a tmux server with one window.
type terminal struct{ socket string }

func (t terminal) tmux(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "tmux", append([]string{"-S", t.socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, out)
	}
	return string(out), nil
}

func (t terminal) open(ctx context.Context, work, program string) error {
	shell := fmt.Sprintf("cd %s && env -u NO_COLOR PS1='$ ' PATH=%s:$PATH KAIROS_DB=%s bash --norc",
		work, program, filepath.Join(filepath.Dir(t.socket), "data", "kairos.db"))
	_, err := t.tmux(ctx, "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), shell)
	return err
}

func (t terminal) close() { _, _ = t.tmux(context.Background(), "kill-server") }

func (t terminal) send(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := t.tmux(ctx, append([]string{"send-keys"}, keys...)...)
	return err
}

// wait returns the screen once it shows the text and has come to rest.
func (t terminal) wait(ctx context.Context, shows *regexp.Regexp) (string, error) {
	last := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		plain, err := t.tmux(ctx, "capture-pane", "-p")
		if err != nil {
			return "", err
		}
		if plain == last && shows.MatchString(strings.TrimRight(plain, "\n")+" ") {
			return t.tmux(ctx, "capture-pane", "-p", "-e")
		}
		last = plain
	}
	return "", fmt.Errorf("the terminal did not show %q within %v; it shows:\n%s", shows, patience, last)
}
