package serve

import (
	"fmt"
	"io"
	"os"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// sayDev names what dev mode relaxes.
func sayDev(s session.Session, to io.Writer, c config.Config) {
	attached := os.Getenv(driverrpc.AttachEnv)
	if !s.Dev {
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
