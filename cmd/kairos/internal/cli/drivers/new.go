package drivers

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The scaffolds. A folder is named for a language, or for a language and a
// role; a driver gets the files of both. "dot-" in a name becomes a dot, and
// BINARY the name of the driver's program.
//
//go:embed scaffold
var scaffolds embed.FS

// A checkout is known by the module of KAIROS; drivers need only the SDK, which is a module of its own.
const (
	kairosModule = "github.com/kairos-mcp/kairos"
	sdkModule    = kairosModule + "/sdk"
)

// scaffold is what a new driver is to be.
type scaffold struct {
	Name string      `json:"name"`
	Role driver.Role `json:"role"`
	Lang string      `json:"lang"`
	Dir  string      `json:"dir"`
	// Type is the challenge type, Binary the program's file name.
	Type   string `json:"type"`
	Binary string `json:"binary"`
	Module string `json:"module,omitempty"` // Go only
	// Checkout is the checkout of KAIROS whose SDK is used. The default is the released SDK.
	Checkout string   `json:"checkout,omitempty"`
	Files    []string `json:"files"`

	// Go and Release are versions.
	Go      string `json:"-"`
	Release string `json:"-"`
}

func driverNewCommand(at *session.Session, out *output.Format) *cobra.Command {
	var s scaffold
	var role string
	cmd := &cobra.Command{
		Use:   "new --role challenge|capability --lang go|python NAME",
		Short: "Create a driver that builds and passes its tests",
		Long: "Writes the program, its tests and samples, a README, a Makefile and a CI file into a new folder.\n" +
			"A challenge driver judges the steps of a new challenge type; a capability driver obtains what a step needs.\n" +
			"A Go driver made inside a checkout of KAIROS uses the SDK of that checkout.",
		Example: "  kairos driver new --role challenge --lang go word_count\n  cd kairos-driver-word_count && make test install",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.Name, s.Role = args[0], driver.Role(role)
			if err := s.complete(at.Version); err != nil {
				return err
			}
			if err := s.write(); err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), s, s.text)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "challenge or capability")
	cmd.Flags().StringVar(&s.Lang, "lang", "", "go or python")
	cmd.Flags().StringVar(&s.Dir, "dir", "", "folder to make; default: kairos-driver-NAME")
	cmd.Flags().StringVar(&s.Module, "module", "", "path of the Go module; default: example.com/kairos-driver-NAME")
	for _, required := range []string{"role", "lang"} {
		if err := cmd.MarkFlagRequired(required); err != nil {
			panic(err) // the flag is declared above
		}
	}
	return cmd
}

// maxDriverName is the longest name of a driver, in characters.
const maxDriverName = 64

var driverName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// taken are the names that mean something already: the shipped drivers, the
// kinds of input, and the keys that a challenge has beside its parameters.
var taken = map[string]string{
	"shell": shippedDriver, "mcp": shippedDriver, "user_input": shippedDriver, "comment": shippedDriver,
	"elicitation": shippedDriver, "sampling": shippedDriver, "agent": shippedDriver, "page": shippedDriver, "roots": shippedDriver,
	"llm": shippedDriver, "tools": shippedDriver, "command": shippedDriver,
	driver.KindEvidence: inputKind, driver.KindApproval: inputKind, driver.KindFiles: inputKind,
	driver.KindSimilarity: inputKind, driver.KindRunInput: inputKind, driver.KindAcceptance: inputKind,
	"type": challengeKey, "name": challengeKey, "required": challengeKey,
}

const (
	shippedDriver = "a driver that KAIROS ships"
	inputKind     = "a kind of input"
	challengeKey  = "a key of every challenge"
)

// complete checks what was asked for and fills in the rest. The driver requires
// the release of this version.
func (s *scaffold) complete(version string) error {
	switch {
	case !driverName.MatchString(s.Name):
		return fmt.Errorf("a driver cannot be called %.100q: lower-case letters, digits, _ and -, a letter first, at most %d characters", s.Name, maxDriverName)
	case len(s.Name) > maxDriverName:
		return fmt.Errorf("a driver's name has at most %d characters, %.100q has %d", maxDriverName, s.Name, len(s.Name))
	case taken[s.Name] != "":
		return fmt.Errorf("a driver cannot be called %q, which is %s: take another name", s.Name, taken[s.Name])
	case s.Role != driver.RoleChallenge && s.Role != driver.RoleCapability:
		return fmt.Errorf("--role is %q: must be challenge or capability", s.Role)
	case s.Lang != "go" && s.Lang != "python":
		return fmt.Errorf("--lang is %q: must be go or python", s.Lang)
	case s.Lang != "go" && s.Module != "":
		return errors.New("--module is for --lang go")
	}
	s.Type = s.Name
	s.Binary = driverhost.BinaryPrefix + s.Name
	if s.Dir == "" {
		s.Dir = s.Binary
	}
	s.Release = release(version)
	if s.Lang != "go" {
		return nil
	}
	if s.Module == "" {
		s.Module = "example.com/" + s.Binary
	}
	s.useSDK()
	return nil
}

// release is the tag of a version that was released, or the first one of it
// that will be.
func release(version string) string {
	number, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	return "v" + number
}

// useSDK finds the SDK: that of a checkout that the working folder or this
// program is in, else the released one.
func (s *scaffold) useSDK() {
	s.Go = strings.TrimPrefix(runtime.Version(), "go")
	self, err := os.Executable()
	if err != nil {
		self = "" // then only the working folder counts
	}
	for _, from := range []string{".", filepath.Dir(self)} {
		root, mod, ok := findCheckout(from)
		if !ok {
			continue
		}
		s.Checkout, s.Release, s.Go = root, "v0.0.0", goVersion(mod)
		return
	}
}

// findCheckout walks up to the folder whose go.mod is that of KAIROS.
func findCheckout(from string) (root, mod string, ok bool) {
	dir, err := filepath.Abs(from)
	if err != nil {
		return "", "", false
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if first, _, _ := strings.Cut(string(b), "\n"); err == nil && strings.TrimSpace(first) == "module "+kairosModule {
			return dir, string(b), true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", "", false
		}
		dir = up
	}
}

// goVersion is what a go.mod says after "go".
func goVersion(mod string) string {
	for line := range strings.Lines(mod) {
		if version, ok := strings.CutPrefix(line, "go "); ok {
			return strings.TrimSpace(version)
		}
	}
	return ""
}

// write makes the folder and fills it. It never writes into one that is there.
func (s *scaffold) write() error {
	if _, err := os.Lstat(s.Dir); err == nil {
		return fmt.Errorf("%s is there already: name another folder with --dir", s.Dir)
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("make the driver's folder: %w", err)
	}
	for _, folder := range []string{s.Lang, s.Lang + "-" + string(s.Role)} {
		if err := s.writeFolder(path.Join("scaffold", folder)); err != nil {
			return fmt.Errorf("write the driver: %w", err)
		}
	}
	return nil
}

func (s *scaffold) writeFolder(root string) error {
	return fs.WalkDir(scaffolds, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := scaffolds.ReadFile(name)
		if err != nil {
			return err
		}
		t, err := template.New(name).Delims("[[", "]]").Parse(string(b))
		if err != nil {
			return err
		}
		var filled bytes.Buffer
		if err := t.Execute(&filled, s); err != nil {
			return err
		}
		to := strings.TrimPrefix(strings.TrimSuffix(name, ".tmpl"), root+"/")
		to = strings.ReplaceAll(strings.ReplaceAll(to, "dot-", "."), "BINARY", s.Binary)
		return s.writeFile(to, filled.Bytes())
	})
}

func (s *scaffold) writeFile(name string, content []byte) error {
	to := filepath.Join(s.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if name == s.Binary { // a script is its own program
		mode = 0o755
	}
	s.Files = append(s.Files, name)
	return os.WriteFile(to, content, mode)
}

func (s *scaffold) text(p *output.Printer) {
	p.Printf("made %s driver %s in %s:\n", s.Role, s.Name, s.Dir)
	for _, f := range s.Files {
		p.Printf("  %s\n", f)
	}
	p.Printf("next: cd %s && make test\n", s.Dir)
	if s.Lang == "go" && s.Checkout == "" {
		p.Printf("  the first make runs `go mod tidy`, which fetches the SDK %s and adds its sums to go.sum\n", s.Release)
	}
	if _, err := exec.LookPath(map[string]string{"go": "go", "python": "python3"}[s.Lang]); err != nil {
		p.Printf("  you need %s for that, which is not on your PATH\n", s.Lang)
	}
}
