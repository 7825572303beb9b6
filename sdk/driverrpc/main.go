package driverrpc

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Main serves the driver as a plugin process and does not return before the
// host is done with it; it is all that a driver's main function calls. With a
// flag it does something else: DescribeFlag prints the descriptor as JSON,
// CallFlag answers one call, DebugFlag serves a host in dev mode that attaches
// to it. It exits with status 1 when the driver is not sound, when its call
// fails or when a person starts it by hand, and with status 2 when it does not
// know its arguments.
//
// Logs of slog's default logger go to stderr as JSON lines, which the host
// collects; a record logged with the context of a call carries its trace_id.
// stdin is the lifeline: the process ends when the host closes it.
func Main(d driver.Driver) {
	stderr := os.Stderr
	log := slog.New(newTraceHandler(slog.NewJSONHandler(stderr, nil)))
	slog.SetDefault(log)

	if err := CheckDriver(d); err != nil {
		fmt.Fprintf(stderr, "%s is not a sound driver:\n%v\n", program(), err)
		os.Exit(1)
	}
	how, err := parseArgs(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(os.Stdout, usage(d))
		return
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n\n%s", program(), err, usage(d))
		os.Exit(2)
	}
	if err := how.run(d, log, stderr); err != nil {
		fmt.Fprintf(stderr, "%s\n", oneLine(err))
		os.Exit(1)
	}
}

// invocation is what the arguments ask for; the zero value is to serve.
type invocation struct {
	describe, debug bool
	method          string // of CallFlag
}

func parseArgs(args []string) (invocation, error) {
	var how invocation
	flags := flag.NewFlagSet(program(), flag.ContinueOnError)
	flags.SetOutput(io.Discard) // usage() is printed instead
	flags.BoolVar(&how.describe, strings.TrimLeft(DescribeFlag, "-"), false, "")
	flags.BoolVar(&how.debug, strings.TrimLeft(DebugFlag, "-"), false, "")
	flags.StringVar(&how.method, strings.TrimLeft(CallFlag, "-"), "", "")
	if err := flags.Parse(args); err != nil {
		return invocation{}, err
	}
	if flags.NArg() > 0 {
		return invocation{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if flags.NFlag() > 1 {
		return invocation{}, errors.New("more than one flag")
	}
	if flags.NFlag() == 1 && !how.describe && !how.debug && !known(how.method) {
		return invocation{}, fmt.Errorf("no method %q", how.method)
	}
	return how, nil
}

func known(method string) bool {
	return slices.Contains(methodsOf(driver.RoleChallenge), method) ||
		slices.Contains(methodsOf(driver.RoleCapability), method)
}

func usage(d driver.Driver) string {
	return fmt.Sprintf(`%[1]s is the KAIROS %[2]s driver %[3]q, version %[4]s.
KAIROS starts it by itself. By hand:

  %[1]s %-16[5]s print the descriptor as JSON
  %[1]s %-16[6]s answer one call: request as JSON on stdin, result on stdout;
  %[7]*[8]s METHOD is one of %[9]s;
  %[7]*[8]s the configuration is taken from %[10]s
  %[1]s %-16[11]s serve a "kairos serve --dev" that attaches to it
`, program(), d.Descriptor.Role, d.Descriptor.Name, d.Descriptor.Version, DescribeFlag, CallFlag+" METHOD",
		len(program())+17, "", strings.Join(methodsOf(d.Descriptor.Role), ", "), ConfigEnv, DebugFlag)
}

func program() string { return filepath.Base(os.Args[0]) }

func (how invocation) run(d driver.Driver, log *slog.Logger, stderr io.Writer) error {
	stdout := os.Stdout
	// A debugger reads a driver that is started for one. A process that is not
	// readable cannot start another one in a user namespace.
	if !how.debug && !d.Descriptor.Has(driver.FeatureLauncher) {
		protectMemory()
	}
	switch {
	case how.describe:
		return writeDescriptor(stdout, d.Descriptor)
	case how.debug:
		return serveDebug(d, log, stdout, stderr)
	case how.method != "":
		os.Stdout = os.Stderr // what the driver prints must not get into the result
		return callOnce(d, log, how.method, os.Stdin, stdout)
	case os.Getenv(cookieKey) != cookieValue:
		return fmt.Errorf("this is the KAIROS %s driver %q, version %s; KAIROS starts it by itself, run by hand it does "+
			"nothing; try --help", d.Descriptor.Role, d.Descriptor.Name, d.Descriptor.Version)
	case d.Descriptor.Transport == driver.TransportExec:
		return fmt.Errorf("the transport of driver %s is %q: it is called with %s METHOD",
			d.Descriptor.Name, d.Descriptor.Transport, CallFlag)
	}
	go exitWithHost(os.Stdin)
	return servePlugin(d, log, stdout)
}

// oneLine puts an error on one line: of stderr the host quotes the last one.
func oneLine(err error) string { return strings.Join(strings.FieldsFunc(err.Error(), isBreak), "; ") }

func isBreak(r rune) bool { return r == '\n' || r == '\r' }

// exitWithHost ends the process when the lifeline closes, which also happens
// when the host dies without a word. The host drains calls before it closes it.
func exitWithHost(lifeline io.Reader) {
	_, _ = io.Copy(io.Discard, lifeline)
	if dir := os.Getenv(socketDirEnv); dir != "" {
		sockets, _ := filepath.Glob(filepath.Join(dir, "plugin*"))
		for _, socket := range sockets {
			_ = os.Remove(socket)
		}
		_ = os.Remove(dir) // refuses, as it should, if anything else is in it
	}
	os.Exit(0)
}

func writeDescriptor(w io.Writer, d driver.Descriptor) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}
