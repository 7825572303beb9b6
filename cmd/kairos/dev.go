package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// devHelp is the help of --dev.
const devHelp = "for authors of drivers: run the drivers of the folder as they are, without drivers.lock, and those that " +
	driverrpc.AttachEnv + " names; never for production"

// checkDev says whether dev mode may be used on a listener: whoever reaches it
// reaches programs that nobody has pinned. Empty is stdin and stdout.
func checkDev(address string) error {
	if address == "" || strings.HasPrefix(address, "unix:") {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("listen address %q: %w", address, err)
	}
	if isLocal(address) {
		return nil
	}
	return fmt.Errorf("--dev is refused on %s, which other machines can reach: listen on 127.0.0.1, or lock the drivers and leave --dev out", address)
}

// sayDev names what dev mode relaxes.
func (s session) sayDev(to io.Writer, c config) {
	attached := os.Getenv(driverrpc.AttachEnv)
	if !s.dev {
		if attached != "" {
			fmt.Fprintf(to, "kairos: %s is set and means nothing without --dev\n", driverrpc.AttachEnv)
		}
		return
	}
	const line = "************************************************************************"
	fmt.Fprintf(to, "%s\n  DEV MODE: for authors of drivers only, never for production\n"+
		"  - drivers.lock is not read: every kairos-driver-* in\n    %s\n    runs as it is, whatever its bytes\n"+
		"  - binaries that change there are taken up at once\n", line, c.Drivers.Dir)
	if attached != "" {
		fmt.Fprintf(to, "  - running processes stand in for drivers: %s\n", attached)
	}
	fmt.Fprintln(to, line)
}
