package driverhost

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// The defaults of Config.
const (
	DefaultStart = 10 * time.Second
	DefaultCall  = 10 * time.Second
	DefaultStop  = 2 * time.Second
	DefaultDrain = 30 * time.Second
	DefaultIdle  = 10 * time.Minute
	DefaultCool  = 30 * time.Second
)

// Config lists the drivers and how they are run. The zero value of
// every optional field works.
type Config struct {
	// Dir is the folder of the binaries; required when the lock has drivers.
	Dir string
	// Lock pins the drivers. Only locked drivers start.
	Lock Lock
	// Drivers holds settings by driver name; a driver without any is fine.
	Drivers map[string]DriverConfig
	// Start bounds a start, from the binary to the first answer. The default is DefaultStart.
	Start time.Duration
	// Call bounds a call once its driver runs; its repetition on a fresh process
	// has the same time again. The default is DefaultCall.
	Call time.Duration
	// Stop bounds first the draining of calls and then the voluntary end of a
	// process, each. The default is DefaultStop.
	Stop time.Duration
	// Drain is how long the holders of a draining set may continue. The default is DefaultDrain.
	Drain time.Duration
	// Idle is after how much time without a call a driver is stopped; the next
	// call starts it. The default is DefaultIdle; a negative value means never.
	Idle time.Duration
	// Cool is how long a driver that failed five times within a minute, without
	// a served call in between, is left alone. The default is DefaultCool.
	Cool time.Duration
	// Dev runs binaries whose bytes are not the locked ones. For development only.
	Dev bool
	// Attach lists drivers that run already, started with --debug. Dev only.
	Attach []driverrpc.Attachment
}

// DriverConfig is the operator's configuration of one driver.
type DriverConfig struct {
	// Config is the driver's own configuration, or empty.
	Config json.RawMessage
	// EnvFrom names the variables of the host's environment that the driver
	// sees. It sees no others.
	EnvFrom []string
	// May is what the driver may do. MayObserve and MayAnswerForPeople also apply to the running
	// process.
	May May
	// MemoryMiB is the driver's memory limit. The default is 256.
	MemoryMiB int
	// Folders lists the files and folders that the driver may use. One of effect class
	// "pure" reads them; any other may change them.
	Folders []string
	// ReadOnly lists files and folders that the driver may only read, such as those that
	// Config names: see PathsIn.
	ReadOnly []string
	// Call and Idle override Config.Call and Config.Idle unless they are 0. A change
	// applies to the running process.
	Call, Idle time.Duration
}

// Limits restrict what a driver may vouch for; they follow from May. The zero value adds
// nothing to the driver's descriptor.
type Limits struct {
	// MaxProvenance is the strongest provenance that the driver may claim. Empty means any.
	MaxProvenance driver.Provenance
	// NoPerson: the driver may not answer for a person.
	NoPerson bool
}

func (c Config) timesOf(name string) times {
	own := c.Drivers[name]
	return times{
		start: orDefault(c.Start, DefaultStart), stop: orDefault(c.Stop, DefaultStop), cool: orDefault(c.Cool, DefaultCool),
		call: cmp.Or(own.Call, c.Call, DefaultCall), idle: cmp.Or(own.Idle, c.Idle, DefaultIdle),
	}
}

// orDefault replaces zero.
func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}
