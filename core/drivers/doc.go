// Package drivers is what use cases know about drivers: how to find them, which
// provenance they may claim, and the setup of drivers, tree and settings that a use
// case holds from its start to its end.
package drivers
