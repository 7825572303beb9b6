package drivers

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Finder finds drivers by name; core/driverhost starts them when first called. Its
// methods are called concurrently.
type Finder interface {
	Describe(name string) (d driver.Descriptor, sha256 string, ok bool)
	// Isolation is the level at which the driver is kept from the server's files.
	Isolation(name string) string
	// Limits are what the operator lets the driver vouch for: the strongest
	// provenance that it is recorded with (empty: any), and whether it may answer
	// for a person.
	Limits(name string) (strongest driver.Provenance, forPersons bool)
	Challenge(name string) (driver.Challenge, bool)
	// Capability bounds each call by within, which defaults to the driver's own call timeout.
	Capability(name string, within time.Duration) (driver.Capability, bool)
	// Warm starts drivers that will be called soon, in the background; those
	// that run cost nothing.
	Warm(ctx context.Context, names ...string)
}
